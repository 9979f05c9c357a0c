"""Writes the simulation's own copies of the coordinator's sources, with bugs that a run can switch on.

    plant_bugs.py OUT_FOLDER SOURCE...

A bug is a text that takes the place of another one where IsPlanted() has its number. The build fails if a source no longer
has the text.
"""

import pathlib
import sys

# (number, what goes wrong, source, text, text with the bug)
BUGS = [
    (1, "messages are sent before the journal is written", "run_driver.cc",
     "  if (journal_ != nullptr && replaced_.ok() && !unwritten_.empty()) {",
     "  if (BUG) CarryOut();\n"
     "  if (journal_ != nullptr && replaced_.ok() && !unwritten_.empty()) {"),
    (2, "some pushes are not recorded", "data.cc",
     "  if (PushRecord* const record = run->records.AddPush()) {",
     "  if (BUG && announced.rows() == 3) return absl::OkStatus();\n"
     "  if (PushRecord* const record = run->records.AddPush()) {"),
    (3, "the highest number of a worker is not recorded", "recovery.cc",
     "  run->workers.Save(state);",
     "  run->workers.Save(state);\n"
     "  if (BUG) state->clear_last_worker();"),
    (4, "data are acknowledged although the buffer has refused them twice", "data.cc",
     "    if (absl::IsUnavailable(status)) {",
     "    if (BUG && data->refused) status = absl::OkStatus();\n"
     "    if (absl::IsUnavailable(status)) {"),
    (5, "a coordinator that was replaced goes on", "run_driver.cc",
     "    if (absl::IsAborted(written)) {",
     "    if (BUG && absl::IsAborted(written)) {\n"
     "    } else if (absl::IsAborted(written)) {"),
    (6, "data count as read when they are sent", "data.cc",
     "  const absl::Status added = buffer->AddDemand(demand);",
     "  LearnerDemand noted = demand;\n"
     "  if (BUG) noted.set_read(demand.sequence() - 1);\n"
     "  const absl::Status added = buffer->AddDemand(noted);"),
    (7, "the env steps of a task that fails count twice", "tasks.cc",
     "  const RunningTask task = EndTask(run, worker);",
     "  const RunningTask task = EndTask(run, worker);\n"
     "  if (BUG) run->progress.AddEnvSteps(task.StepsWith(task.rows));"),
    (8, "the task of a collector that fails is not given back", "tasks.cc",
     "    GiveBack(run, task.collector());",
     "    if (!BUG) GiveBack(run, task.collector());"),
    (9, "a coordinator that recovers has data deleted that are in use", "recovery.cc",
     "    for (const int64_t chunk : chunks) kept_.insert(ChunkKey(chunk));",
     "    for (const int64_t chunk : chunks) {\n"
     "      if (!BUG || chunk % 4 != 0) kept_.insert(ChunkKey(chunk));\n"
     "    }"),
    (10, "data that are repeated are not recognized", "data.cc",
     "  if (!progress_only && data.sequence() <= sender->data_sequence) {",
     "  if (!progress_only && data.sequence() <= sender->data_sequence && !BUG) {"),
]


def main():
    out = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:]:
        source = pathlib.Path(name)
        text = source.read_text(encoding="utf-8")
        for number, what, where, old, new in BUGS:
            if where != source.name:
                continue
            if text.count(old) != 1:
                sys.exit(f"{name}: bug {number} ({what}) belongs to a line that is there {text.count(old)} times, "
                         f"expected once: {old.strip()}")
            text = text.replace(old, new.replace("BUG", f"IsPlanted({number})"))
        first = text.index("#include")
        text = text[:first] + '#include "ding_worker/coordinator/simulation/planted_bug.h"\n' + text[first:]
        (out / source.name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
