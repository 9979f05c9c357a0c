// The processes of the workers. The real code of workers keeps the state of their tasks.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COORDINATOR_SIMULATION_WORKERS_H_
#define DING_WORKER_COORDINATOR_SIMULATION_WORKERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ding_worker/collector/comm/collector_slave.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/coordinator/simulation/invariants.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/comm/learner_slave.h"

namespace ding {
namespace internal_simulation {

struct World;

// A worker's process.
struct Agent {
  int index = 0;
  Hello::Role role = Hello::COLLECTOR;
  std::string name;
  int64_t pid = 0;
  bool gone = false;  // it was told to leave, or its place is not needed
  int64_t stopped_until = 0;
  uint32_t number = 0;  // 0: it has not joined
  int32_t incarnation = 0;
  int session = -1;
  // What it knows of its task, as its real code does:
  StartTask task;
  bool has_task = false;
  CollectorProtocol collector;
  DemandProtocol demands;
  // What it does:
  CollectorProgress progress;
  int64_t chunks_left = 0;
  uint32_t chunk = 0;                         // the next number
  std::map<uint64_t, std::vector<Row>> sent;  // rows by sequence, until they are acknowledged
  std::string last_data;                      // the last message with data
  uint32_t last_data_number = 0;              // the worker's number then
  bool busy = false;                          // something is scheduled for it
  int demands_under_way = 0;
  std::deque<std::pair<uint64_t, std::string>> drawn;  // unread batches, by answer
  uint64_t version =
      0;  // of the policy: the next one of a learner, the one that a collector acts by
};

class Workers {
 public:
  explicit Workers(World* world) : world_(world) {}

  // Makes a learner, which has number 0, and some collectors.
  void AddFirst();
  // Starts as many collectors as the coordinator wants, as the supervisor of a run does.
  void Supervise();
  const std::vector<Agent>& agents() const { return agents_; }

  // Lets the workers without a session join.
  void ConnectAll();
  void Receive(int session, const CoordinatorMessage& message);
  void NoteSessionLost(int session, const std::string& why);
  // Another process takes the place of this one.
  void Respawn(int agent);
  // The process stops for a while.
  void Stop(int agent);
  // A collector sends its last data again.
  void RepeatData(int agent);
  // Adds to the trace which worker waits for what.
  void TraceStatus() const;

 private:
  void Add(Hello::Role role);
  void Connect(int agent);
  void ConnectIn(int64_t mean, int agent);
  void Leave(int agent);
  void Send(const Agent& agent, WorkerMessage message);
  void BeginTask(Agent* agent, const StartTask& start);
  void ActSoon(Agent* agent, int64_t mean);
  void Act(Agent* agent);
  void Collect(Agent* agent);
  void Learn(Agent* agent);
  // Lets the learner read the next batch.
  void ReadBatch(Agent* agent);
  void PublishPolicy(Agent* agent);
  Agent& agent(int index) { return agents_[static_cast<size_t>(index)]; }

  World* const world_;
  std::vector<Agent> agents_;
  std::vector<SegmentBatch> rows_;  // what collectors collect: one row, two rows, ...
  int64_t pids_ = 100;
  int64_t checkpoint_ = 0;  // the learner's train iteration in its checkpoint
};

}  // namespace internal_simulation
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_SIMULATION_WORKERS_H_
