#include "ding_worker/coordinator/simulation/simulation.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/coordinator/core/events.pb.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/simulation/planted_bug.h"
#include "ding_worker/coordinator/simulation/world.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_simulation {

void World::PlanFaults() {
  const uint64_t count = rng_.UniformInt(12);
  for (uint64_t i = 0; i < count; ++i) {
    const auto fault = static_cast<Fault>(rng_.UniformInt(kFaults));
    const auto nanos = static_cast<int64_t>(rng_.Uniform() * static_cast<double>(kFaultTime));
    if (i < options_.left_out.size() && options_.left_out[i]) continue;
    At(nanos, [this, fault] {
      if (over_) return;
      ++result_.faults[static_cast<size_t>(fault)];
      Trace(absl::StrCat("FAULT: ", FaultName(fault)));
      Happen(fault);
    });
  }
  result_.planned_faults = static_cast<int64_t>(count);
}

void World::Happen(Fault fault) {
  const int collector = 1 + static_cast<int>(rng_.UniformInt(agents_.size() - 1));
  const int session = agents_[rng_.UniformInt(agents_.size())].session;
  switch (fault) {
    case Fault::kKillCoordinator:
    case Fault::kPowerLoss:
      if (process_ == nullptr || !process_->alive || process_->stopped) return;
      Kill(process_);
      if (fault == Fault::kPowerLoss) power_was_lost_ = disk_.LosePower() || power_was_lost_;
      In(Delay(kSecond), [this] { StartProcess(); });
      return;
    case Fault::kReplaceSlow: {
      if (process_ == nullptr || !process_->alive || process_->stopped) return;
      const std::shared_ptr<Process> slow = process_;
      slow->stopped = true;
      for (size_t i = 0; i < sessions_.size(); ++i) {
        if (sessions_[i].process != slow || !sessions_[i].open) continue;
        In(kLease, [this, i] {
          CutAtWorker(static_cast<int>(i), "the lease ran out");
          LoseWorker(static_cast<int>(i), "the lease ran out");
        });
      }
      In(Delay(kLease), [this] { StartProcess(); });
      In(Delay(3 * kLease), [this, slow] {
        slow->stopped = false;
        Trace("the slow coordinator wakes up");
        for (size_t i = 0; i < sessions_.size(); ++i) {
          if (sessions_[i].process == slow) TakeInbox(static_cast<int>(i));
        }
        AfterEvents(slow);
        SetTimer(slow);
      });
      return;
    }
    case Fault::kKillCollector:
      Respawn(collector);
      return;
    case Fault::kKillLearner:
      Respawn(0);
      return;
    case Fault::kCutConnection:
    case Fault::kHalfOpen:
      if (session >= 0) Cut(session, fault == Fault::kHalfOpen);
      return;
    case Fault::kSlowWorker:
      agents_[static_cast<size_t>(collector)].stopped_until = now() + Delay(2 * kSecond);
      return;
    case Fault::kFullDisk:
      disk_.set_full(true);
      In(Delay(2 * kSecond), [this] { disk_.set_full(false); });
      return;
    case Fault::kLostChunks: {
      std::vector<std::string> keys = ListKeys("data/").value();
      for (const std::string& key : keys) {
        if (rng_.UniformInt(3) > 0) continue;
        store_.erase(key);
        lost_keys_.insert(key);
      }
      return;
    }
    case Fault::kRepeatMessage: {
      const Agent& agent = agents_[static_cast<size_t>(collector)];
      if (agent.session < 0 || agent.last_data.empty()) return;
      WorkerMessage message;
      message.ParseFromString(agent.last_data);
      Send(collector, std::move(message));
      return;
    }
    case Fault::kOperator: {
      if (process_ == nullptr || !process_->alive || process_->stopped) return;
      if (!process_->driver->paused().ok()) return;
      Event event;
      OperatorRequest* const request = event.mutable_request();
      switch (rng_.UniformInt(3)) {
        case 0:
          request->set_grow(1);
          break;
        case 1:
          if (process_->driver->state().commands.wanted_collectors() < 2) return;
          request->set_shrink(1);
          break;
        default:
          request->set_inspect("");
      }
      Apply(process_, &event);
      AfterEvents(process_);
      return;
    }
  }
}

void World::TraceStatus() {
  for (const Session& session : sessions_) {
    if (!session.coordinator_open || !session.process->alive) continue;
    const internal_coordinator::RunState& state = session.process->driver->state();
    const internal_coordinator::Worker* const worker = state.workers.Find(session.number);
    if (worker == nullptr) continue;
    const Agent& agent = agents_[static_cast<size_t>(session.agent)];
    Trace(absl::StrCat("coordinator ", state.incarnation, ": ", agent.name, " (", session.number,
                       session.open ? "" : ", cut", session.waits ? ", held" : "", ", ",
                       session.inbox.size(), " messages) runs ",
                       worker->task.has_value() ? worker->task->state.task_id : "nothing",
                       " and waits for '", worker->waits_for, "'; it has ",
                       agent.has_task ? "a task" : "no task", ", ", agent.sent.size(),
                       " data under way, ", agent.demand, " demands, ", agent.read, " read"));
  }
}

// Starts as many collectors as the coordinator wants, as the supervisor of a run does.
void World::Supervise() {
  if (over_) return;
  In(kSecond, [this] { Supervise(); });
  if (process_ == nullptr || !process_->alive || process_->stopped) return;
  int here = 0;
  for (const Agent& agent : agents_) {
    if (agent.role == Hello::COLLECTOR && !agent.gone) ++here;
  }
  const int wanted = process_->driver->state().commands.wanted_collectors();
  if (here >= wanted || agents_.size() == kMaxAgents) return;
  AddAgent(Hello::COLLECTOR);
  const int added = static_cast<int>(agents_.size()) - 1;
  In(Delay(500 * kMillis), [this, added] { Connect(added); });
}

void World::AddAgent(Hello::Role role) {
  Agent agent;
  agent.role = role;
  agent.name = role == Hello::LEARNER ? "learner" : absl::StrCat("collector-", agents_.size());
  agent.pid = ++pids_;
  agents_.push_back(std::move(agent));
}

SimulationResult World::Run() {
  agents_.reserve(kMaxAgents);  // Messages under way refer to them.
  AddAgent(Hello::LEARNER);
  const uint64_t collectors = 1 + rng_.UniformInt(3);
  for (uint64_t i = 0; i < collectors; ++i) AddAgent(Hello::COLLECTOR);
  PlanFaults();
  StartProcess();
  Supervise();
  while (!queue_.empty() && result_.broken.empty()) {
    // Everybody is to hear that the run is over, and a coordinator that was replaced may wake up.
    Timed next = queue_.top();
    queue_.pop();
    if (next.nanos > kMaxTime) {
      if (!over_) TraceStatus();
      if (!over_) Break("the run ends", "it goes on after ten minutes");
      break;
    }
    clock_.Advance(absl::Nanoseconds(next.nanos - now()));
    ++result_.steps;
    next.what();
  }
  if (!over_ && result_.broken.empty()) Break("the run ends", "nothing happens any more");
  return std::move(result_);
}

}  // namespace internal_simulation

std::string FaultName(Fault fault) {
  switch (fault) {
    case Fault::kKillCoordinator:
      return "the coordinator is killed";
    case Fault::kPowerLoss:
      return "the power is lost";
    case Fault::kReplaceSlow:
      return "the coordinator stops and is replaced";
    case Fault::kKillCollector:
      return "a collector is killed";
    case Fault::kKillLearner:
      return "the learner is killed";
    case Fault::kCutConnection:
      return "a connection is cut";
    case Fault::kHalfOpen:
      return "a connection is half open";
    case Fault::kSlowWorker:
      return "a collector stops for a while";
    case Fault::kFullDisk:
      return "the disk is full for a while";
    case Fault::kLostChunks:
      return "the store loses data";
    case Fault::kRepeatMessage:
      return "a collector repeats its last data";
    case Fault::kOperator:
      return "an operator asks for something";
  }
  return "";
}

SimulationResult Simulate(const SimulationOptions& options) {
  planted_bug = options.planted;
  return internal_simulation::World(options).Run();
}

SimulationOptions Shrink(SimulationOptions options) {
  const SimulationResult whole = Simulate(options);
  options.left_out.resize(static_cast<size_t>(whole.planned_faults));
  for (size_t i = 0; i < options.left_out.size(); ++i) {
    if (options.left_out[i]) continue;
    options.left_out[i] = true;
    if (Simulate(options).rule != whole.rule) options.left_out[i] = false;
  }
  options.traces = true;
  return options;
}

}  // namespace ding
