// Makes the reports of a learner's task from its iterations. No priority is lost between two
// reports.
//
//     Add(learner), after each iteration ──► [step | priorities | values] ──► a report
//
// A report is due every send_info_freq iterations; without a group also after a second.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_LEARNER_COMM_LEARN_REPORTS_H_
#define DING_WORKER_LEARNER_COMM_LEARN_REPORTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "ding_worker/base/clock.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/learner.h"

namespace ding {

class LearnReports {
 public:
  // All learners of a group report the same iterations.
  LearnReports(int64_t train_iter, int64_t send_info_freq, bool grouped);

  // Adds the learner's last iteration, and returns the report if one is due. The last report says
  // that the learner is done.
  std::optional<LearnerInfo> Add(LearnerView* learner);
  // Returns a report that the learner waits for `what`. The next report of progress comes early, to
  // end it.
  LearnerInfo Stall(int64_t train_iter, const std::string& what);
  // Sets the wait that each report shows even though the learner learns; empty: none.
  void set_stalled(std::string what) { stalled_ = std::move(what); }
  // Drops unreported iterations: the learner continues from `train_iter`.
  void Restart(int64_t train_iter);

 private:
  const int64_t send_info_freq_;
  const bool grouped_;
  LearnerInfo info_;  // the next report
  int64_t reported_iter_;
  Timer since_report_{Clock::Real()};
  bool told_stall_ = false;  // whether a stall was reported since the last report of progress
  bool told_stop_request_ = false;
  std::string stalled_;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_LEARN_REPORTS_H_
