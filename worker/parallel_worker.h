// A collector, learner or learner aggregator process of a parallel run, from joining to its end.
//
// Threads: for main().
#ifndef DING_WORKER_WORKER_PARALLEL_WORKER_H_
#define DING_WORKER_WORKER_PARALLEL_WORKER_H_

#include <functional>
#include <string>
#include <vector>

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
  // Whether to join again when the coordinator is lost; asked while it is.
  std::function<bool()> may_rejoin = [] { return true; };
  // For a learner in a group: this machine, as the other learners reach it.
  std::string all_reduce_host = "127.0.0.1";
  // Asked now and then: whether to leave the run.
  std::function<bool()> interrupted = [] { return false; };
};

// Joins the run and works for it until it ends, or until it is to leave, which is no error. When the
// coordinator is lost, joins again, as a new worker, within the time that it allows.
//   kFailedPrecondition  the coordinator refuses it, or the config cannot be run by this program;
//                        also when it comes back and has been replaced
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
  // For these: what they need to reach it, beside its address.
  std::vector<std::string> link_arguments;
};

// Joins the run as one learner, for those that join it, and works as above.
absl::Status RunParallelAggregator(const ParallelAggregatorOptions& options, Transport* transport);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PARALLEL_WORKER_H_
