"""`make bench`: every benchmark, one after the other."""

from benchmarks import import_time, loop_overhead, mlp_beside_sklearn

for benchmark in (import_time, loop_overhead, mlp_beside_sklearn):
    print(f"\n{(benchmark.__doc__ or '').strip()}")
    benchmark.main()
