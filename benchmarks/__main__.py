"""`make bench`: every benchmark, one after the other."""

from benchmarks import import_time, loop_overhead, mlp_beside_sklearn, recording_cost, recurrence_speed, transformer_step

for benchmark in (import_time, loop_overhead, mlp_beside_sklearn, transformer_step, recording_cost, recurrence_speed):
    print(f"\n{(benchmark.__doc__ or '').strip()}")
    benchmark.main()
