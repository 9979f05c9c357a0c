#include "ding_worker/coordinator/simulation/simulation.h"

#include <algorithm>
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

using internal_coordinator::RunDriver;

void World::PlanFaults() {
  const uint64_t count = rng_.UniformInt(12);
  for (uint64_t i = 0; i < count; ++i) {
    auto fault = static_cast<Fault>(rng_.UniformInt(kFaults));
    // It ends the run, so it is rare.
    if (fault == Fault::kUserCodeFails && rng_.UniformInt(4) > 0) fault = Fault::kOperator;
    const auto nanos = static_cast<int64_t>(rng_.Uniform() * static_cast<double>(kFaultTime));
    if (i < options_.left_out.size() && options_.left_out[i]) continue;
    At(nanos, [this, fault] {
      if (over_) return;
      ++result_.faults[static_cast<size_t>(fault)];
      Trace("FAULT: ", FaultName(fault));
      Happen(fault);
    });
  }
  result_.planned_faults = static_cast<int64_t>(count);
}

void World::Happen(Fault fault) {
  const int collector = 1 + static_cast<int>(rng_.UniformInt(agents_.size() - 1));
  const int anybody = static_cast<int>(rng_.UniformInt(agents_.size()));
  const int session = agents_[static_cast<size_t>(anybody)].session;
  const bool works = process_ != nullptr && process_->alive && !process_->stopped;
  switch (fault) {
    case Fault::kKillCoordinator:
    case Fault::kPowerLoss:
      if (!works) return;
      if (fault == Fault::kKillCoordinator && rng_.UniformInt(2) == 0) {
        process_->dies = true;
        return;
      }
      Kill(process_);
      if (fault == Fault::kPowerLoss) power_was_lost_ = disk_.LosePower() || power_was_lost_;
      In(Delay(kSecond), [this] { StartProcess(); });
      return;
    case Fault::kReplaceSlow: {
      if (!works) return;
      const std::shared_ptr<Process> slow = process_;
      slow->stopped = true;
      for (size_t i = 0; i < sessions_.size(); ++i) {
        if (sessions_[i].process != slow || !sessions_[i].open) continue;
        In(kLease, [this, i] { EndLease(static_cast<int>(i)); });
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
      StopWorker(anybody);
      return;
    case Fault::kSlowNetwork: {
      constexpr int64_t kMore = 500 * kMillis;
      mean_delay_ += kMore;
      In(Delay(kSecond), [this] { mean_delay_ -= kMore; });
      return;
    }
    case Fault::kClockJump:
      if (works) JumpClock(process_);
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
      // Data of before it joined again are refused.
      if (agent.last_data_number != agent.number) {
        sessions_[static_cast<size_t>(agent.session)].confused = true;
      }
      WorkerMessage message;
      message.ParseFromString(agent.last_data);
      Send(collector, std::move(message));
      return;
    }
    case Fault::kOperator:
      if (works && process_->driver->paused().ok()) Operate(process_);
      return;
    case Fault::kUserCodeFails:
      if (works) process_->user_code_fails = true;
      return;
  }
}

void World::JumpClock(const std::shared_ptr<Process>& process) {
  const int64_t by = Delay(4 * kSecond);
  process->clock.Jump(by);
  for (size_t i = 0; by >= kLease && i < sessions_.size(); ++i) {
    if (sessions_[i].process == process) EndLease(static_cast<int>(i));
  }
  process->timer_nanos = -1;
  SetTimer(process);
}

void World::Operate(const std::shared_ptr<Process>& process) {
  const bool may_remove = process->driver->state().wanted_collectors > 1;
  Event event;
  OperatorRequest* const request = event.mutable_request();
  switch (rng_.UniformInt(8)) {
    case 0:
      request->set_stop(true);
      break;
    case 1:
    case 2:
      if (may_remove) request->set_shrink(1);
      break;
    case 3:
      if (may_remove) request->set_drain(agents_[rng_.UniformInt(agents_.size())].name);
      break;
    case 4:
      request->set_inspect(agents_[rng_.UniformInt(agents_.size())].name);
      break;
    default:
      request->set_grow(1);
  }
  Trace("an operator asks: ", request->ShortDebugString());
  const RunDriver::Result result = Apply(process, &event);
  Trace("the answer: ", result.reply, result.status.message());
  AfterEvents(process);
}

void World::TraceStatus() {
  for (const Session& session : sessions_) {
    if (!session.coordinator_open || !session.process->alive) continue;
    const internal_coordinator::RunState& state = session.process->driver->state();
    const internal_coordinator::Worker* const worker = state.workers.Find(session.number);
    if (worker == nullptr) continue;
    const Agent& agent = agents_[static_cast<size_t>(session.agent)];
    Trace("coordinator ", state.incarnation, ": ", agent.name, " (", session.number,
          session.open ? "" : ", cut", session.waits ? ", held" : "", ", ", session.inbox.size(),
          " messages) runs ", worker->task.has_value() ? worker->task->id() : "nothing",
          " and waits for '", worker->waits_for, "'; it has ",
          agent.has_task ? "a task" : "no task", ", ", agent.sent.size(), " data under way, ",
          agent.demands_under_way, " demands");
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
  const int wanted = process_->driver->state().wanted_collectors;
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
  MakeRows();
  AddAgent(Hello::LEARNER);
  const uint64_t collectors = 1 + rng_.UniformInt(3);
  for (uint64_t i = 0; i < collectors; ++i) AddAgent(Hello::COLLECTOR);
  PlanFaults();
  StartProcess();
  Supervise();
  while (!queue_.empty() && result_.broken.empty()) {
    // Everybody is to hear that the run is over, and a coordinator that was replaced may wake up.
    std::pop_heap(queue_.begin(), queue_.end());
    const Timed next = std::move(queue_.back());
    queue_.pop_back();
    if (next.nanos > kMaxTime) {
      if (!over_) TraceStatus();
      if (!over_) Break("the run ends", "it goes on after ten minutes");
      break;
    }
    clock_.Advance(absl::Nanoseconds(next.nanos - now()));
    ++result_.steps;
    Note(static_cast<uint64_t>(next.nanos));
    next.what();
    for (const std::shared_ptr<Process>& process : processes_) CheckAlways(process.get());
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
      return "a worker stops for a while";
    case Fault::kSlowNetwork:
      return "the network is slow for a while";
    case Fault::kClockJump:
      return "the coordinator's clock jumps";
    case Fault::kFullDisk:
      return "the disk is full for a while";
    case Fault::kLostChunks:
      return "the store loses data";
    case Fault::kRepeatMessage:
      return "a collector repeats its last data";
    case Fault::kOperator:
      return "an operator asks for something";
    case Fault::kUserCodeFails:
      return "the commander or the buffer throws";
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
