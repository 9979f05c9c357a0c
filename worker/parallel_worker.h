// A collector, learner or learner aggregator process of a parallel run, from joining to its end.
//
// Threads: for main().
#ifndef DING_WORKER_WORKER_PARALLEL_WORKER_H_
#define DING_WORKER_WORKER_PARALLEL_WORKER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport.h"

namespace ding {

struct ParallelWorkerOptions {
  std::string coordinator;    // where it listens
  std::string name;           // for people
  std::string config_digest;  // of the config that it was started with; empty: none
  absl::Duration join_timeout = absl::Seconds(30);
  // Of a learner in a group: this machine, as the other learners reach it.
  std::string all_reduce_host = "127.0.0.1";
  // Asked now and then: whether to leave the run.
  std::function<bool()> interrupted = [] { return false; };
};

// Joins the run and works for it until it ends, or until it is to leave, which is no error.
//   kFailedPrecondition  the coordinator refuses it, or the config cannot be run by this program
//   kUnavailable ...     the coordinator is lost: says why
absl::Status RunParallelWorker(Hello::Role role, const ParallelWorkerOptions& options,
                               Transport* transport);

struct ParallelAggregatorOptions {
  ParallelWorkerOptions worker;
  std::string listen;  // where learners are to connect to
  // Learner processes that it starts itself, and watches; 0: somebody else starts them.
  int learners = 0;
  std::string program;       // to start as these
  std::string program_name;  // as it is told
};

// Joins the run as one learner, for those that join it, and works as above.
absl::Status RunParallelAggregator(const ParallelAggregatorOptions& options, Transport* transport);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_WORKER_H_
