#include "ding_worker/coordinator/simulation/coordinators.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/simulation/world.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {
namespace internal_simulation {

using internal_coordinator::RunDriver;
using internal_coordinator::TimeToNextEvent;

void Coordinators::Start() {
  if (over_) return;
  const std::shared_ptr<Process> before = newest_;
  world_->invariants.NoteStart();
  // Perhaps on another machine.
  auto process = std::make_shared<Process>(
      world_,
      static_cast<int64_t>(world_->loop.rng()->UniformInt(1000) * static_cast<uint64_t>(kSecond)));
  processes_.push_back(process);
  const absl::Status recovered = process->driver->Recover();
  if (!recovered.ok()) {
    if (absl::IsResourceExhausted(recovered)) {  // The disk is full: the supervisor tries again.
      world_->loop.In(kSecond, [this] { Start(); });
      return;
    }
    world_->loop.Break("a coordinator can be started again", std::string(recovered.message()));
    return;
  }
  process->commander->set_recovered();
  if (before != nullptr) world_->invariants.CheckRecovered(*before, *process);
  newest_ = process;
  world_->loop.Trace("coordinator ", process->driver->state().incarnation, " starts with ",
                     process->pushed.size(), " rows");
  Event start;
  start.set_start(true);
  Apply(process, &start);
  AfterEvents(process);
  world_->workers.ConnectAll();
}

void Coordinators::Kill(const std::shared_ptr<Process>& process) {
  process->alive = false;
  world_->network.CloseAll(process.get());
}

void Coordinators::ReplaceSlow() {
  const std::shared_ptr<Process> slow = newest_;
  slow->stopped = true;
  const std::vector<Session>& sessions = world_->network.sessions();
  for (size_t i = 0; i < sessions.size(); ++i) {
    if (sessions[i].process != slow || !sessions[i].open) continue;
    world_->loop.In(kLease, [this, i] { world_->network.EndLease(static_cast<int>(i)); });
  }
  world_->loop.In(world_->loop.Delay(kLease), [this] { Start(); });
  world_->loop.In(world_->loop.Delay(3 * kLease), [this, slow] {
    slow->stopped = false;
    world_->loop.Trace("the slow coordinator wakes up");
    world_->network.TakeInboxes(slow.get());
    AfterEvents(slow);
    SetTimer(slow);
  });
}

void Coordinators::JumpClock() {
  const int64_t by = world_->loop.Delay(4 * kSecond);
  const std::shared_ptr<Process> process = newest_;
  process->clock.Jump(by);
  if (by >= kLease) world_->network.EndLeases(process.get());
  process->timer_nanos = -1;
  SetTimer(process);
}

void Coordinators::Operate() {
  const std::shared_ptr<Process> process = newest_;
  if (!process->driver->paused().ok()) return;
  Rng* const rng = world_->loop.rng();
  const std::vector<Agent>& agents = world_->workers.agents();
  const bool may_remove = process->driver->state().wanted_collectors > 1;
  Event event;
  OperatorRequest* const request = event.mutable_request();
  switch (rng->UniformInt(8)) {
    case 0:
      request->set_stop(true);
      break;
    case 1:
    case 2:
      if (may_remove) request->set_shrink(1);
      break;
    case 3:
      if (may_remove) request->set_drain(agents[rng->UniformInt(agents.size())].name);
      break;
    case 4:
      request->set_inspect(agents[rng->UniformInt(agents.size())].name);
      break;
    default:
      request->set_grow(1);
  }
  world_->loop.Trace("an operator asks: ", request->ShortDebugString());
  const RunDriver::Result result = Apply(process, &event);
  world_->loop.Trace("the answer: ", result.reply, result.status.message());
  AfterEvents(process);
}

RunDriver::Result Coordinators::Apply(const std::shared_ptr<Process>& process, Event* event) {
  process->changed = true;
  return process->driver->Apply(process->clock.MonotonicNanos(), event);
}

void Coordinators::AfterEvents(const std::shared_ptr<Process>& process) {
  if (!process->alive || process->stopped) return;
  const absl::Status written = process->driver->Commit(process->clock.MonotonicNanos());
  if (process->dies && written.ok()) {
    world_->loop.Trace("the coordinator is killed before it sends what it has written");
    Kill(process);
    if (process == newest_) world_->loop.In(world_->loop.Delay(kSecond), [this] { Start(); });
    return;
  }
  for (const auto& [worker, status] : process->driver->TakeHandled()) {
    world_->network.EndWait(process.get(), worker);
  }
  if (!written.ok()) {
    world_->loop.In(20 * kMillis, [this, process] { AfterEvents(process); });
    return;
  }
  SetTimer(process);
  if (!process->driver->state().ended || process->has_seen_end) return;
  process->has_seen_end = true;
  world_->loop.Trace("the run ends: ", process->driver->state().end_reason);
  if (process == newest_) {
    over_ = true;
  } else {
    Kill(process);  // Its program ends.
  }
}

void Coordinators::SetTimer(const std::shared_ptr<Process>& process) {
  if (process->driver->state().ended) return;
  const int64_t due =
      world_->loop.now() +
      absl::ToInt64Nanoseconds(std::min(TimeToNextEvent(process->driver->state()), absl::Hours(1)));
  if (process->timer_nanos >= world_->loop.now() && process->timer_nanos <= due) return;
  process->timer_nanos = due;
  world_->loop.At(due, [this, process, due] {
    if (process->timer_nanos != due || !process->alive) return;
    process->timer_nanos = -1;
    if (process->stopped || !process->driver->paused().ok()) {
      world_->loop.In(100 * kMillis, [this, process] { SetTimer(process); });
      return;
    }
    Event timer;
    timer.set_timer(true);
    Apply(process, &timer);
    AfterEvents(process);
  });
}

void Coordinators::DeleteKey(const Process& from, const std::string& key) {
  if (from.dies) return;
  const std::vector<Row>& pushed = newest_ != nullptr ? newest_->pushed : from.pushed;
  const size_t first = pushed.size() > kCapacity ? pushed.size() - kCapacity : 0;
  for (size_t i = first; from.epoch < world_->disk.epoch() && i < pushed.size(); ++i) {
    if (ChunkKey(pushed[i].first) != key) continue;
    world_->loop.Break("at most one coordinator acts",
                       absl::StrCat("one that was replaced deletes ", key));
  }
  if (world_->store.keys.erase(key) > 0)
    world_->loop.Trace("coordinator of epoch ", from.epoch, " deletes ", key);
}

void Coordinators::Check() {
  for (const std::shared_ptr<Process>& process : processes_) {
    world_->invariants.CheckAlways(process.get());
  }
}

}  // namespace internal_simulation
}  // namespace ding
