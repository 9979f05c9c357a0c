// What the processes of the coordinator do, and what is checked of them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/simulation/world.h"
#include "ding_worker/interaction/chunk_key.h"
#include "ding_worker/replay_buffer/buffer.h"

namespace ding {
namespace internal_simulation {

using internal_coordinator::RunDriver;
using internal_coordinator::TimeToNextEvent;

void World::StartProcess() {
  if (over_) return;
  const std::shared_ptr<Process> before = process_;
  if (power_was_lost_) {
    // The disk may have forgotten numbers. Those that name something in the store must not be given again.
    std::set<uint32_t> named;
    for (const uint32_t number : numbers_) {
      const std::string hex = absl::StrCat(absl::Hex(number));
      const bool names = std::any_of(store_.begin(), store_.end(), [&hex](const std::string& key) {
        return absl::StartsWith(key, absl::StrCat("data/", hex, "/")) ||
               absl::EndsWith(key, absl::StrCat("-", hex));
      });
      if (names) named.insert(number);
    }
    numbers_ = std::move(named);
  }
  // Perhaps on another machine.
  auto process = std::make_shared<Process>(
      this, &disk_, static_cast<int64_t>(rng_.UniformInt(1000) * static_cast<uint64_t>(kSecond)));
  processes_.push_back(process);
  const absl::Status recovered = process->driver->Recover();
  if (!recovered.ok()) {
    if (absl::IsResourceExhausted(recovered)) {  // The disk is full: somebody starts it again.
      In(kSecond, [this] { StartProcess(); });
      return;
    }
    Break("a coordinator can be started again", std::string(recovered.message()));
    return;
  }
  process->commander->set_recovered();
  if (before != nullptr) CheckRecovered(*process);
  process_ = process;
  Trace("coordinator ", process->driver->state().incarnation, " starts with ",
        process->pushed.size(), " rows");
  Event start;
  start.set_start(true);
  Apply(process, &start);
  AfterEvents(process);
  for (size_t i = 0; i < agents_.size(); ++i) {
    if (agents_[i].session < 0)
      In(Delay(50 * kMillis), [this, i] { Connect(static_cast<int>(i)); });
  }
}

void World::Kill(const std::shared_ptr<Process>& process) {
  process->alive = false;
  for (size_t i = 0; i < sessions_.size(); ++i) {
    if (sessions_[i].process != process) continue;
    sessions_[i].coordinator_open = false;
    if (sessions_[i].open) {
      In(Delay(mean_delay_),
         [this, i] { CutAtWorker(static_cast<int>(i), "the coordinator is gone"); });
    }
  }
}

void World::CheckRecovered(const Process& process) {
  // What was pushed before, in order: the records that survived are the first ones of them.
  const std::vector<Row>& all = process_->pushed;
  const std::vector<Row>& kept = process.pushed;
  std::set<Row> there(kept.begin(), kept.end());
  size_t survived = 0;  // rows of `all` up to the last that is there
  for (size_t i = 0; i < all.size(); ++i) {
    // Rows whose data the store has lost have taken the place of older ones, too.
    const bool counts = there.count(all[i]) > 0 || lost_keys_.count(ChunkKey(all[i].first)) > 0;
    if (counts) survived = i + 1;
  }
  const size_t first = survived > kCapacity ? survived - kCapacity : 0;
  for (size_t i = first; i < all.size(); ++i) {
    const Row& row = all[i];
    const std::string key = ChunkKey(row.first);
    if (there.count(row) > 0 || lost_keys_.count(key) > 0) continue;
    if (i >= survived && (power_was_lost_ || acknowledged_.count(row) == 0)) continue;
    // The disk has forgotten the rows that took the place of these.
    if (power_was_lost_ && store_.count(key) == 0) continue;
    Break("no acknowledged row is lost",
          absl::StrCat("row ", row.second, " of ", ChunkKey(row.first),
                       acknowledged_.count(row) > 0 ? "" : ", which was not the last one,"));
    return;
  }
  power_was_lost_ = false;
}

void World::AfterEvents(const std::shared_ptr<Process>& process) {
  if (!process->alive || process->stopped) return;
  const absl::Status written = process->driver->Commit(process->clock.MonotonicNanos());
  if (process->dies && written.ok()) {
    Trace("the coordinator is killed before it sends what it has written");
    Kill(process);
    if (process == process_) In(Delay(kSecond), [this] { StartProcess(); });
    return;
  }
  for (const auto& [worker, status] : process->driver->TakeHandled()) {
    for (size_t i = 0; i < sessions_.size(); ++i) {
      if (sessions_[i].process != process || sessions_[i].number != worker) continue;
      sessions_[i].waits = false;
      In(1, [this, i] { TakeInbox(static_cast<int>(i)); });
    }
  }
  if (!written.ok()) {
    In(20 * kMillis, [this, process] { AfterEvents(process); });
    return;
  }
  SetTimer(process);
  if (!process->driver->state().ended || process->has_seen_end) return;
  process->has_seen_end = true;
  Trace("the run ends: ", process->driver->state().end_reason);
  if (process == process_) {
    over_ = true;
  } else {
    Kill(process);  // Its program ends.
  }
}

void World::SetTimer(const std::shared_ptr<Process>& process) {
  if (process->driver->state().ended) return;
  const int64_t due = now() + absl::ToInt64Nanoseconds(std::min(
                                  TimeToNextEvent(process->driver->state()), absl::Hours(1)));
  if (process->timer_nanos >= now() && process->timer_nanos <= due) return;
  process->timer_nanos = due;
  At(due, [this, process, due] {
    if (process->timer_nanos != due || !process->alive) return;
    process->timer_nanos = -1;
    if (process->stopped || !process->driver->paused().ok()) {
      In(100 * kMillis, [this, process] { SetTimer(process); });
      return;
    }
    Event timer;
    timer.set_timer(true);
    Apply(process, &timer);
    AfterEvents(process);
  });
}

void World::TakeInbox(int index) {
  Session* session = &sessions_[static_cast<size_t>(index)];
  const std::shared_ptr<Process> process = session->process;
  if (!session->coordinator_open || !process->alive || process->stopped) return;
  if (!process->driver->paused().ok()) {
    if (!session->inbox.empty()) In(50 * kMillis, [this, index] { TakeInbox(index); });
    return;
  }
  while (!session->inbox.empty() && !session->waits && process->driver->paused().ok()) {
    Event event;
    event.set_worker(session->number);
    *event.mutable_message() = std::move(session->inbox.front());
    session->inbox.pop_front();
    const RunDriver::Result result = Apply(process, &event);
    session->waits = result.waits;
    AfterEvents(process);
    if (!process->alive) return;
    session = &sessions_[static_cast<size_t>(index)];
    if (result.status.ok()) continue;
    if (!session->confused && !absl::IsPermissionDenied(result.status) &&
        !absl::IsNotFound(result.status)) {
      Break("no correct message is refused", std::string(result.status.message()));
    }
    LoseWorker(index, "it sent an invalid message");
    const int agent = sessions_[static_cast<size_t>(index)].agent;
    // Its program ends.
    if (agents_[static_cast<size_t>(agent)].session == index) Respawn(agent);
    return;
  }
}

void World::LoseWorker(int index, const std::string& why) {
  Session* const session = &sessions_[static_cast<size_t>(index)];
  const std::shared_ptr<Process> process = session->process;
  if (!session->coordinator_open || !process->alive) return;
  if (process->stopped || !process->driver->paused().ok()) {
    In(100 * kMillis, [this, index, why] { LoseWorker(index, why); });
    return;
  }
  session->coordinator_open = false;
  Event event;
  event.set_worker(session->number);
  event.mutable_lost()->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  event.mutable_lost()->set_why(why);
  Apply(process, &event);
  AfterEvents(process);
}

void World::Deliver(Process* from, uint32_t worker, const CoordinatorMessage& message) {
  if (from->dies) return;
  for (size_t i = 0; i < sessions_.size(); ++i) {
    Session& session = sessions_[i];
    if (session.process.get() != from || session.number != worker || !session.coordinator_open)
      continue;
    const CollectorDataAck& ack = message.collector_data_ack();
    const bool acts = message.has_start_task() || ack.sequence() > session.acknowledged;
    if (acts && from->epoch < disk_.epoch()) {
      Break("at most one coordinator acts",
            absl::StrCat("one that was replaced sends ", message.ShortDebugString()));
    }
    session.acknowledged = std::max(session.acknowledged, ack.sequence());
    Note(worker * uint64_t{32} + static_cast<uint64_t>(message.message_case()));
    if (session.silent) return;
    session.to_worker_nanos = std::max(session.to_worker_nanos + 1, now() + Delay(mean_delay_));
    At(session.to_worker_nanos, [this, i, message] { Receive(static_cast<int>(i), message); });
    return;
  }
}

void World::DeleteKey(const Process& from, const std::string& key) {
  if (from.dies) return;
  const std::vector<Row>& pushed = process_ != nullptr ? process_->pushed : from.pushed;
  const size_t first = pushed.size() > kCapacity ? pushed.size() - kCapacity : 0;
  for (size_t i = first; from.epoch < disk_.epoch() && i < pushed.size(); ++i) {
    if (ChunkKey(pushed[i].first) != key) continue;
    Break("at most one coordinator acts", absl::StrCat("one that was replaced deletes ", key));
  }
  if (store_.erase(key) > 0) Trace("coordinator of epoch ", from.epoch, " deletes ", key);
}

void World::CheckAlways(Process* process) {
  if (!process->changed) return;
  process->changed = false;
  const internal_coordinator::RunState& state = process->driver->state();
  const int64_t envstep = state.EnvSteps();
  if (envstep > true_steps_) {
    Break("no env step counts twice",
          absl::StrCat("the run counts ", envstep, ", and there were ", true_steps_));
  }
  if (envstep < process->last_envstep) {
    Break("env steps do not fall", absl::StrCat("from ", process->last_envstep, " to ", envstep));
  }
  process->last_envstep = envstep;
  const auto rows = static_cast<int64_t>(process->pushed.size());
  if (process->buffer != nullptr && process->buffer->count() != std::min(rows, kCapacity)) {
    Break("no acknowledged row is lost",
          absl::StrCat("the buffer has ", process->buffer->count(), " of ", rows));
  }
  CheckQueues(*process);
  // A commander that has thrown is not called again.
  if (!process->user_code_fails) CheckTasks(*process);
}

void World::CheckQueues(const Process& process) {
  const internal_coordinator::RunState& state = process.driver->state();
  size_t joined = 0;
  for (const auto& worker : state.workers) joined += worker.second.held.has_value() ? 1 : 0;
  const auto check = [this](const char* what, size_t size, size_t most) {
    if (size <= most) return;
    Break("queues are bounded", absl::StrCat(size, " ", what, ", expected at most ", most));
  };
  check("data that wait", state.held.size(), joined);
  check("records in the log", disk_.records(), kMaxLogRecords);
  check("keys in the store", store_.size(), kMaxStored);
  for (const Session& session : sessions_) {
    if (session.process.get() != &process || !session.coordinator_open) continue;
    check("messages of a worker", session.inbox.size(), kMaxInbox);
  }
}

void World::CheckTasks(const Process& process) {
  const internal_coordinator::RunState& state = process.driver->state();
  size_t running = state.doubted.size() + state.tasks.For(Hello::LEARNER).size() +
                   state.tasks.For(Hello::COLLECTOR).size();
  for (const auto& [id, worker] : state.workers) {
    // The task of a witness is not the commander's.
    if (worker.task.has_value() && !IsWitnessTask(state, worker.task->id())) ++running;
  }
  if (running == process.commander->open()) return;
  Break("every task is running or over",
        absl::StrCat(process.commander->open(), " tasks are not over, and ", running,
                     " are running or wait"));
}

}  // namespace internal_simulation
}  // namespace ding
