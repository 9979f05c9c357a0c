// Decides when an evaluation is due: at iteration 0, then every eval_freq train iterations, at most once
// per iteration.
//
// Ownership: a value.   Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_EVALUATOR_EVAL_SCHEDULE_H_
#define DING_WORKER_COLLECTOR_EVALUATOR_EVAL_SCHEDULE_H_

#include <cstdint>

namespace ding {

class EvalSchedule {
 public:
  explicit EvalSchedule(int64_t eval_freq) : eval_freq_(eval_freq) {}

  // A true answer counts as the evaluation of this iteration.
  bool ShouldEval(int64_t train_iter) {
    if (train_iter == last_eval_iter_) return false;
    if (train_iter - last_eval_iter_ < eval_freq_ && train_iter != 0) return false;
    last_eval_iter_ = train_iter;
    return true;
  }

  // -1: there was none yet.
  int64_t last_eval_iter() const { return last_eval_iter_; }
  void set_last_eval_iter(int64_t train_iter) { last_eval_iter_ = train_iter; }

 private:
  int64_t eval_freq_;
  int64_t last_eval_iter_ = -1;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_EVALUATOR_EVAL_SCHEDULE_H_
