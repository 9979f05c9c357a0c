// The connections between workers and processes of the coordinator: messages need time, and
// connections break.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COORDINATOR_SIMULATION_NETWORK_H_
#define DING_WORKER_COORDINATOR_SIMULATION_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_simulation {

struct World;
struct Process;

// A connection between a worker and a process of the coordinator.
struct Session {
  std::shared_ptr<Process> process;
  int agent = 0;
  uint32_t number = 0;
  bool open = true;  // as the worker sees it
  bool coordinator_open = true;
  bool silent = false;          // nothing arrives any more
  bool confused = false;        // the worker has sent another worker's message
  bool waits = false;           // the coordinator takes no message now
  int64_t to_worker_nanos = 0;  // when the last message arrives
  int64_t to_coordinator_nanos = 0;
  std::deque<WorkerMessage> inbox;
  uint64_t acknowledged = 0;  // the last number that the coordinator has sent
};

class Network {
 public:
  Network(World* world, int64_t mean_delay) : world_(world), mean_delay_(mean_delay) {}

  // Returns the number of the new session.
  int Open(const std::shared_ptr<Process>& process, int agent, uint32_t worker);
  Session& session(int index) { return sessions_[static_cast<size_t>(index)]; }
  const std::vector<Session>& sessions() const { return sessions_; }
  // Adds this delay to all messages.
  void AddDelay(int64_t nanos) { mean_delay_ += nanos; }

  void Send(int session, WorkerMessage message);
  void Deliver(Process* from, uint32_t worker, const CoordinatorMessage& message);
  // Lets the coordinator take the messages that wait.
  void TakeInbox(int session);
  void TakeInboxes(const Process* process);
  // The coordinator is done with the data of a worker; the data had to wait.
  void EndWait(const Process* process, uint32_t worker);

  void Cut(int session, bool half_open);
  // The worker ends the session; the coordinator hears of it, or loses the worker.
  void Leave(int session, const std::string& why);
  void LoseWorker(int session, const std::string& why);
  // The worker notices that the session is over.
  void CutAtWorker(int session, const std::string& why);
  // Both sides notice that they have heard nothing for the length of the lease.
  void EndLease(int session);
  void EndLeases(const Process* process);
  // A process is killed.
  void CloseAll(const Process* process);

 private:
  World* const world_;
  int64_t mean_delay_;
  std::vector<Session> sessions_;
};

}  // namespace internal_simulation
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_SIMULATION_NETWORK_H_
