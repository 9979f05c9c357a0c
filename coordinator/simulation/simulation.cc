#include "ding_worker/coordinator/simulation/simulation.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ding_worker/base/rng.h"
#include "ding_worker/coordinator/simulation/planted_bug.h"
#include "ding_worker/coordinator/simulation/world.h"

namespace ding {
namespace {

using internal_simulation::kFaultTime;
using internal_simulation::kMillis;
using internal_simulation::kSecond;
using internal_simulation::SimLoop;
using internal_simulation::World;

void Happen(Fault fault, World* world) {
  SimLoop& loop = world->loop;
  Rng* const rng = loop.rng();
  const std::vector<internal_simulation::Agent>& agents = world->workers.agents();
  const int collector = 1 + static_cast<int>(rng->UniformInt(agents.size() - 1));
  const uint64_t anybody = rng->UniformInt(agents.size());
  const bool works = world->coordinators.works();
  switch (fault) {
    case Fault::kKillCoordinator:
    case Fault::kPowerLoss:
      if (!works) return;
      if (fault == Fault::kKillCoordinator && rng->UniformInt(2) == 0) {
        world->coordinators.newest()->dies = true;
        return;
      }
      world->coordinators.Kill(world->coordinators.newest());
      if (fault == Fault::kPowerLoss && world->disk.LosePower()) world->invariants.NotePowerLoss();
      loop.In(loop.Delay(kSecond), [world] { world->coordinators.Start(); });
      return;
    case Fault::kReplaceSlow:
      if (works) world->coordinators.ReplaceSlow();
      return;
    case Fault::kKillCollector:
      world->workers.Respawn(collector);
      return;
    case Fault::kKillLearner:
      world->workers.Respawn(0);
      return;
    case Fault::kCutConnection:
    case Fault::kHalfOpen:
      if (agents[anybody].session < 0) return;
      world->network.Cut(agents[anybody].session, fault == Fault::kHalfOpen);
      return;
    case Fault::kSlowWorker:
      world->workers.Stop(static_cast<int>(anybody));
      return;
    case Fault::kSlowNetwork: {
      constexpr int64_t kMore = 500 * kMillis;
      world->network.AddDelay(kMore);
      loop.In(loop.Delay(kSecond), [world] { world->network.AddDelay(-kMore); });
      return;
    }
    case Fault::kClockJump:
      if (works) world->coordinators.JumpClock();
      return;
    case Fault::kFullDisk:
      world->disk.set_full(true);
      loop.In(loop.Delay(2 * kSecond), [world] { world->disk.set_full(false); });
      return;
    case Fault::kLostChunks:
      for (const std::string& key : world->store.List("data/")) {
        if (rng->UniformInt(3) > 0) continue;
        world->store.keys.erase(key);
        world->store.lost.insert(key);
      }
      return;
    case Fault::kRepeatMessage:
      world->workers.RepeatData(collector);
      return;
    case Fault::kOperator:
      if (works) world->coordinators.Operate();
      return;
    case Fault::kUserCodeFails:
      if (works) world->coordinators.newest()->user_code_fails = true;
      return;
  }
}

void PlanFaults(const SimulationOptions& options, World* world) {
  SimLoop& loop = world->loop;
  const uint64_t count = loop.rng()->UniformInt(12);
  for (uint64_t i = 0; i < count; ++i) {
    auto fault = static_cast<Fault>(loop.rng()->UniformInt(kFaults));
    // It ends the run, so it is rare.
    if (fault == Fault::kUserCodeFails && loop.rng()->UniformInt(4) > 0) fault = Fault::kOperator;
    const auto nanos =
        static_cast<int64_t>(loop.rng()->Uniform() * static_cast<double>(kFaultTime));
    if (i < options.left_out.size() && options.left_out[i]) continue;
    loop.At(nanos, [world, fault] {
      if (world->coordinators.over()) return;
      ++world->loop.result()->faults[static_cast<size_t>(fault)];
      world->loop.Trace("FAULT: ", FaultName(fault));
      Happen(fault, world);
    });
  }
  loop.result()->planned_faults = static_cast<int64_t>(count);
}

}  // namespace

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
  World world(options);
  world.workers.AddFirst();
  PlanFaults(options, &world);
  world.coordinators.Start();
  world.workers.Supervise();
  SimLoop& loop = world.loop;
  // When the run is over, everybody is to hear of it, and a coordinator that was replaced may wake
  // up.
  while (loop.result()->broken.empty() && loop.Step()) world.coordinators.Check();
  if (!world.coordinators.over() && loop.result()->broken.empty()) {
    if (!loop.empty()) world.workers.TraceStatus();
    loop.Break("the run ends",
               loop.empty() ? "nothing happens any more" : "it goes on after ten minutes");
  }
  return std::move(*loop.result());
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
