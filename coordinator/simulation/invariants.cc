#include "ding_worker/coordinator/simulation/invariants.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/simulation/world.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {
namespace internal_simulation {

void Invariants::NoteNumber(uint32_t number) {
  if (numbers_.insert(number).second) return;
  world_->loop.Break("no number is given twice", absl::StrCat(number));
}

void Invariants::NoteAcknowledged(const Process& process, const Row& row) {
  acknowledged_.insert(row);
  const std::vector<Row>& pushed = process.pushed;
  if (std::find(pushed.rbegin(), pushed.rend(), row) != pushed.rend()) return;
  world_->loop.Break(
      "no acknowledged row is lost",
      absl::StrCat("row ", row.second, " of ", ChunkKey(row.first), " was never pushed"));
}

void Invariants::NoteStart() {
  if (!power_was_lost_) return;
  // The disk may have forgotten numbers. Those that name something in the store must not be given
  // again.
  std::set<uint32_t> named;
  for (const uint32_t number : numbers_) {
    const std::string hex = absl::StrCat(absl::Hex(number));
    const std::set<std::string>& keys = world_->store.keys;
    const bool names = std::any_of(keys.begin(), keys.end(), [&hex](const std::string& key) {
      return absl::StartsWith(key, absl::StrCat("data/", hex, "/")) ||
             absl::EndsWith(key, absl::StrCat("-", hex));
    });
    if (names) named.insert(number);
  }
  numbers_ = std::move(named);
}

void Invariants::CheckRecovered(const Process& before, const Process& process) {
  // What was pushed before, in order: the records that survived are the first ones of them.
  const std::vector<Row>& all = before.pushed;
  const std::vector<Row>& kept = process.pushed;
  std::set<Row> there(kept.begin(), kept.end());
  size_t survived = 0;  // rows of `all` up to the last that is there
  for (size_t i = 0; i < all.size(); ++i) {
    // Rows whose data the store has lost have taken the place of older ones, too.
    const bool counts =
        there.count(all[i]) > 0 || world_->store.lost.count(ChunkKey(all[i].first)) > 0;
    if (counts) survived = i + 1;
  }
  const size_t first = survived > kCapacity ? survived - kCapacity : 0;
  for (size_t i = first; i < all.size(); ++i) {
    const Row& row = all[i];
    const std::string key = ChunkKey(row.first);
    if (there.count(row) > 0 || world_->store.lost.count(key) > 0) continue;
    if (i >= survived && (power_was_lost_ || acknowledged_.count(row) == 0)) continue;
    // The disk has forgotten the rows that took the place of these.
    if (power_was_lost_ && world_->store.keys.count(key) == 0) continue;
    world_->loop.Break(
        "no acknowledged row is lost",
        absl::StrCat("row ", row.second, " of ", ChunkKey(row.first),
                     acknowledged_.count(row) > 0 ? "" : ", which was not the last one,"));
    return;
  }
  power_was_lost_ = false;
}

void Invariants::CheckAlways(Process* process) {
  if (!process->changed) return;
  process->changed = false;
  const internal_coordinator::RunState& state = process->driver->state();
  const int64_t envstep = state.EnvSteps();
  if (envstep > true_steps_) {
    world_->loop.Break("no env step counts twice",
                       absl::StrCat("the run counts ", envstep, ", and there were ", true_steps_));
  }
  if (envstep < process->last_envstep) {
    world_->loop.Break("env steps do not fall",
                       absl::StrCat("from ", process->last_envstep, " to ", envstep));
  }
  process->last_envstep = envstep;
  const auto rows = static_cast<int64_t>(process->pushed.size());
  if (process->buffer != nullptr && process->buffer->count() != std::min(rows, kCapacity)) {
    world_->loop.Break("no acknowledged row is lost",
                       absl::StrCat("the buffer has ", process->buffer->count(), " of ", rows));
  }
  CheckQueues(*process);
  // A commander that has thrown is not called again.
  if (!process->user_code_fails) CheckTasks(*process);
}

void Invariants::CheckQueues(const Process& process) const {
  const internal_coordinator::RunState& state = process.driver->state();
  size_t joined = 0;
  for (const auto& worker : state.workers) joined += worker.second.held.has_value() ? 1 : 0;
  const auto check = [this](const char* what, size_t size, size_t most) {
    if (size <= most) return;
    world_->loop.Break("queues are bounded",
                       absl::StrCat(size, " ", what, ", expected at most ", most));
  };
  check("data that wait", state.held.size(), joined);
  check("records in the log", world_->disk.records(), kMaxLogRecords);
  check("keys in the store", world_->store.keys.size(), kMaxStored);
  for (const Session& session : world_->network.sessions()) {
    if (session.process.get() != &process || !session.coordinator_open) continue;
    check("messages of a worker", session.inbox.size(), kMaxInbox);
  }
}

void Invariants::CheckTasks(const Process& process) const {
  const internal_coordinator::RunState& state = process.driver->state();
  size_t running = state.doubted.size() + state.tasks.For(Hello::LEARNER).size() +
                   state.tasks.For(Hello::COLLECTOR).size();
  for (const auto& [id, worker] : state.workers) {
    // The task of a witness is not the commander's.
    if (worker.task.has_value() && !IsWitnessTask(state, worker.task->id())) ++running;
  }
  if (running == process.commander->open()) return;
  world_->loop.Break("every task is running or over",
                     absl::StrCat(process.commander->open(), " tasks are not over, and ", running,
                                  " are running or wait"));
}

}  // namespace internal_simulation
}  // namespace ding
