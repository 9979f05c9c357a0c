// The world of the simulation, which is made of these parts:
//
//     Workers ◄──► Network ◄──► Coordinators ──► SimDisk        each is moved on by SimLoop,
//        └────────► SimStore ◄──────┘                          and Invariants watch what happens
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COORDINATOR_SIMULATION_WORLD_H_
#define DING_WORKER_COORDINATOR_SIMULATION_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ding_worker/coordinator/simulation/coordinators.h"
#include "ding_worker/coordinator/simulation/invariants.h"
#include "ding_worker/coordinator/simulation/network.h"
#include "ding_worker/coordinator/simulation/sim_disk.h"
#include "ding_worker/coordinator/simulation/sim_loop.h"
#include "ding_worker/coordinator/simulation/simulation.h"
#include "ding_worker/coordinator/simulation/workers.h"

namespace ding {
namespace internal_simulation {

inline constexpr int64_t kCapacity = 24;            // rows of the buffer
inline constexpr int64_t kFaultTime = 4 * kSecond;  // faults happen before
inline constexpr int64_t kLease = 5 * kSecond;
inline constexpr int64_t kMaxEnvStep = 120;
inline constexpr size_t kMaxLogRecords = 128;
inline constexpr size_t kMaxStored = 96;  // keys
inline constexpr size_t kMaxInbox = 32;   // messages of a worker that the coordinator has not taken
inline constexpr size_t kMaxAgents = 64;
inline constexpr int kDemands = 2;      // that a learner has under way
inline constexpr int64_t kMaxRows = 5;  // of a chunk

// The keys of the store.
struct SimStore {
  bool HasHad(const std::string& key) const { return keys.count(key) > 0 || lost.count(key) > 0; }
  std::vector<std::string> List(const std::string& prefix) const {
    std::vector<std::string> listed;
    for (auto it = keys.lower_bound(prefix); it != keys.end(); ++it) {
      if (it->compare(0, prefix.size(), prefix) != 0) break;
      listed.push_back(*it);
    }
    return listed;
  }

  std::set<std::string> keys;
  std::set<std::string> lost;  // that it had, and that nobody deleted
};

struct World {
  explicit World(const SimulationOptions& options)
      : disk(options.seed % 3 != 0),
        loop(options),
        limited(loop.rng()->UniformInt(3) == 0),
        network(this, static_cast<int64_t>(kMillis * (1 + loop.rng()->UniformInt(20)))),
        invariants(this),
        coordinators(this),
        workers(this) {}

  SimDisk disk;
  SimLoop loop;
  SimStore store;
  const bool limited;  // whether the run has a replay ratio
  Network network;
  Invariants invariants;
  Coordinators coordinators;
  Workers workers;
};

}  // namespace internal_simulation
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_SIMULATION_WORLD_H_
