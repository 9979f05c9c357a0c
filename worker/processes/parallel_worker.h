// Runs a collector, learner or learner aggregator process of a parallel run, from joining the run
// to its end.
//
// Threads: to be called from main().
#ifndef DING_WORKER_WORKER_PROCESSES_PARALLEL_WORKER_H_
#define DING_WORKER_WORKER_PROCESSES_PARALLEL_WORKER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport/transport.h"
#include "ding_worker/metrics/time_histogram.h"

namespace ding {

struct ParallelWorkerOptions {
  std::string coordinator;    // address of the coordinator
  std::string name;           // shown to people
  std::string config_digest;  // of the config that this process was started with; empty: none
  absl::Duration join_timeout = absl::Seconds(30);
  // Whether to join again when the connection to the coordinator is lost; polled until it is back.
  // It returns false when the supervisor has died. A process without an open session then ends;
  // OrphanWatch ends it if it does not do so by itself.
  std::function<bool()> may_rejoin = [] { return true; };
  // For a learner in a group: the address of this machine, as the other learners reach it.
  std::string all_reduce_host = "127.0.0.1";
  // GPUs that the worker reports; at least 0. An aggregator passes the number on to the learners
  // that it starts.
  int gpus = 0;
  // Polled: returns whether to leave the run.
  std::function<bool()> interrupted = [] { return false; };
  // Called again and again, by another thread, with the name of the run and the stages of the
  // worker (stage_times()), unless it is null. An aggregator does not call it.
  std::function<void(const std::string& run, const StageTimes& stages)> show = nullptr;
};

// Joins the run and works for it until the run ends or the worker is told to leave, which is no
// error. When the connection to the coordinator is lost, joins again as a new worker, within the
// time that the coordinator allows.
//   kFailedPrecondition  the coordinator refuses the worker, or this program cannot run the config;
//                        also if the worker comes back after it has been replaced
//   kUnavailable ...     the connection to the coordinator is lost; the message says why
absl::Status RunParallelWorker(Hello::Role role, const ParallelWorkerOptions& options,
                               Transport* transport);

struct ParallelAggregatorOptions {
  ParallelWorkerOptions worker;
  std::string listen;  // address at which learners connect
  // Learner processes that the aggregator starts and supervises; 0: another program or a person
  // starts them.
  int learners = 0;
  std::string program;       // path of the program of these processes
  std::string program_name;  // argv[0] of these processes
  // Further arguments of these processes, which they need besides the aggregator's address to
  // connect to it.
  std::vector<std::string> link_arguments;
};

// Joins the run as one learner on behalf of the learners that join the aggregator. Otherwise works
// as RunParallelWorker().
absl::Status RunParallelAggregator(const ParallelAggregatorOptions& options, Transport* transport);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PROCESSES_PARALLEL_WORKER_H_
