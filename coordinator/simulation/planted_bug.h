// The bug that is planted in the simulation's copy of the coordinator (plant_bugs.py).
#ifndef DING_WORKER_COORDINATOR_SIMULATION_PLANTED_BUG_H_
#define DING_WORKER_COORDINATOR_SIMULATION_PLANTED_BUG_H_

namespace ding {

inline constexpr int kPlantedBugs = 10;
inline thread_local int planted_bug = 0;  // 0: none

inline bool IsPlanted(int bug) { return planted_bug == bug; }

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_SIMULATION_PLANTED_BUG_H_
