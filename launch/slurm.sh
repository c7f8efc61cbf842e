#!/bin/bash
# Train on the nodes of a SLURM cluster, all processors or graphics cards of each:
#
#     sbatch --nodes 4 launch/slurm.sh gpt2 --data /shared/corpus.txt --out /shared/runs/gpt2 --parallel fsdp
#
# The words are those of `neuropil train`. --out is on a file system that all nodes see. Options of sbatch in the
# command line come before the lines below; PROCESSES is how many there are on a node, by default one for each graphics
# card, and PORT where they meet.
#
# A job that is pre-empted, or at the end of its time, saves a checkpoint and is queued again. It keeps its number, by
# which neuropil knows the run that it had begun, and so goes on with it.

#SBATCH --job-name=neuropil
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
#SBATCH --open-mode=append
#SBATCH --output=neuropil-%j.out

set -euo pipefail

if [ $# -eq 0 ]; then
  echo "usage: sbatch [options of sbatch] launch/slurm.sh NAME [options of neuropil train] --out FOLDER" >&2
  exit 2
fi

hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
first=${hosts%%$'\n'*}  # not by head, which would end scontrol with SIGPIPE when it has many to tell
processes=${PROCESSES:-${SLURM_GPUS_ON_NODE:-1}}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(( (${SLURM_CPUS_PER_TASK:-processes} + processes - 1) / processes ))}

# One torchrun on each node, which starts its processes and starts them again if one is lost.
srun torchrun \
  --nnodes "$SLURM_JOB_NUM_NODES" \
  --nproc-per-node "$processes" \
  --rdzv-backend c10d \
  --rdzv-endpoint "$first:${PORT:-29400}" \
  --rdzv-id "$SLURM_JOB_ID" \
  --max-restarts 3 \
  -m neuropil train "$@" &
training=$!

# Two minutes before the end: the processes save and end, and the job waits for its next turn.
again() {
  echo "neuropil: the time is over soon; the job is saved and queued again" >&2
  scancel --signal=TERM "$SLURM_JOB_ID"
  wait "$training" || true
  scontrol requeue "$SLURM_JOB_ID"
  exit 0
}
trap again USR1
# Pre-empted: SLURM has told the processes itself, and queues the job again.
trap 'wait "$training" || true' TERM

wait "$training"
