#include "ding_worker/coordinator/simulation/network.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/coordinator/core/events.pb.h"
#include "ding_worker/coordinator/core/run_driver.h"
#include "ding_worker/coordinator/simulation/world.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_simulation {

using internal_coordinator::RunDriver;

int Network::Open(const std::shared_ptr<Process>& process, int agent, uint32_t worker) {
  Session& session = sessions_.emplace_back();
  session.process = process;
  session.agent = agent;
  session.number = worker;
  return static_cast<int>(sessions_.size()) - 1;
}

void Network::Send(int index, WorkerMessage message) {
  if (index < 0 || session(index).silent) return;
  SimLoop& loop = world_->loop;
  loop.Note(static_cast<uint64_t>(index) * 32 + static_cast<uint64_t>(message.message_case()));
  Session& from = session(index);
  from.to_coordinator_nanos =
      std::max(from.to_coordinator_nanos + 1, loop.now() + loop.Delay(mean_delay_));
  loop.At(from.to_coordinator_nanos, [this, index, message = std::move(message)]() mutable {
    Session& to = session(index);
    if (!to.coordinator_open || !to.process->alive) return;
    to.inbox.push_back(std::move(message));
    TakeInbox(index);
  });
}

void Network::Deliver(Process* from, uint32_t worker, const CoordinatorMessage& message) {
  if (from->dies) return;
  SimLoop& loop = world_->loop;
  for (size_t i = 0; i < sessions_.size(); ++i) {
    Session& to = sessions_[i];
    if (to.process.get() != from || to.number != worker || !to.coordinator_open) continue;
    const CollectorDataAck& ack = message.collector_data_ack();
    const bool acts = message.has_start_task() || ack.sequence() > to.acknowledged;
    if (acts && from->epoch < world_->disk.epoch()) {
      loop.Break("at most one coordinator acts",
                 absl::StrCat("one that was replaced sends ", message.ShortDebugString()));
    }
    to.acknowledged = std::max(to.acknowledged, ack.sequence());
    loop.Note(worker * uint64_t{32} + static_cast<uint64_t>(message.message_case()));
    if (to.silent) return;
    to.to_worker_nanos = std::max(to.to_worker_nanos + 1, loop.now() + loop.Delay(mean_delay_));
    loop.At(to.to_worker_nanos,
            [this, i, message] { world_->workers.Receive(static_cast<int>(i), message); });
    return;
  }
}

void Network::TakeInbox(int index) {
  const std::shared_ptr<Process> process = session(index).process;
  Coordinators& coordinators = world_->coordinators;
  if (!session(index).coordinator_open || !process->works()) return;
  if (!process->driver->paused().ok()) {
    if (session(index).inbox.empty()) return;
    world_->loop.In(50 * kMillis, [this, index] { TakeInbox(index); });
    return;
  }
  while (!session(index).inbox.empty() && !session(index).waits && process->driver->paused().ok()) {
    Event event;
    event.set_worker(session(index).number);
    *event.mutable_message() = std::move(session(index).inbox.front());
    session(index).inbox.pop_front();
    const RunDriver::Result result = coordinators.Apply(process, &event);
    session(index).waits = result.waits;
    coordinators.AfterEvents(process);
    if (!process->alive) return;
    if (result.status.ok()) continue;
    if (!session(index).confused && !absl::IsPermissionDenied(result.status) &&
        !absl::IsNotFound(result.status)) {
      world_->loop.Break("no correct message is refused", std::string(result.status.message()));
    }
    LoseWorker(index, "it sent an invalid message");
    // Its program ends.
    const int agent = session(index).agent;
    if (world_->workers.agents()[static_cast<size_t>(agent)].session == index) {
      world_->workers.Respawn(agent);
    }
    return;
  }
}

void Network::TakeInboxes(const Process* process) {
  for (size_t i = 0; i < sessions_.size(); ++i) {
    if (sessions_[i].process.get() == process) TakeInbox(static_cast<int>(i));
  }
}

void Network::EndWait(const Process* process, uint32_t worker) {
  for (size_t i = 0; i < sessions_.size(); ++i) {
    if (sessions_[i].process.get() != process || sessions_[i].number != worker) continue;
    sessions_[i].waits = false;
    world_->loop.In(1, [this, i] { TakeInbox(static_cast<int>(i)); });
  }
}

void Network::Cut(int index, bool half_open) {
  SimLoop& loop = world_->loop;
  const uint64_t who = half_open ? loop.rng()->UniformInt(3) : 3;
  if (half_open) loop.In(kLease, [this, index] { EndLease(index); });
  // A connection that is silent stays so: what it has swallowed must not be missing between other
  // messages.
  if (who == 2) session(index).silent = true;
  const char* const why = "the connection is cut";
  if (who == 1 || who == 3) {
    loop.In(loop.Delay(mean_delay_), [this, index, why] { LoseWorker(index, why); });
  }
  if (who == 0 || who == 3) CutAtWorker(index, why);
}

void Network::Leave(int index, const std::string& why) {
  if (index < 0) return;
  session(index).open = false;
  world_->loop.In(world_->loop.Delay(mean_delay_), [this, index, why] { LoseWorker(index, why); });
}

void Network::LoseWorker(int index, const std::string& why) {
  Session& lost = session(index);
  const std::shared_ptr<Process> process = lost.process;
  if (!lost.coordinator_open || !process->alive) return;
  if (process->stopped || !process->driver->paused().ok()) {
    world_->loop.In(100 * kMillis, [this, index, why] { LoseWorker(index, why); });
    return;
  }
  lost.coordinator_open = false;
  Event event;
  event.set_worker(lost.number);
  event.mutable_lost()->set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  event.mutable_lost()->set_why(why);
  world_->coordinators.Apply(process, &event);
  world_->coordinators.AfterEvents(process);
}

void Network::CutAtWorker(int index, const std::string& why) {
  if (!session(index).open) return;
  session(index).open = false;
  world_->workers.NoteSessionLost(index, why);
}

void Network::EndLease(int index) {
  CutAtWorker(index, "the lease ran out");
  LoseWorker(index, "the lease ran out");
}

void Network::EndLeases(const Process* process) {
  for (size_t i = 0; i < sessions_.size(); ++i) {
    if (sessions_[i].process.get() == process) EndLease(static_cast<int>(i));
  }
}

void Network::CloseAll(const Process* process) {
  for (size_t i = 0; i < sessions_.size(); ++i) {
    if (sessions_[i].process.get() != process) continue;
    sessions_[i].coordinator_open = false;
    if (!sessions_[i].open) continue;
    world_->loop.In(world_->loop.Delay(mean_delay_),
                    [this, i] { CutAtWorker(static_cast<int>(i), "the coordinator is gone"); });
  }
}

}  // namespace internal_simulation
}  // namespace ding
