#include "ding_worker/adapter/testing/random_learner.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/adapter/testing/rows.h"
#include "ding_worker/interaction/store/store.h"
#include "gtest/gtest.h"

namespace ding {

WorkerMessage RandomLearner::Says(Rng* rng) {
  WorkerMessage message;
  if (!task_.has_value()) return message;
  if (generation() == nullptr || rng->UniformInt(40) == 0) {
    Ready(message.mutable_group_ready());
    return message;
  }
  switch (rng->UniformInt(10)) {
    case 0:
      message.mutable_task_failed()->set_task_id(task_->task_id());
      message.mutable_task_failed()->set_code(static_cast<int>(
          rng->UniformInt(4) == 0 ? absl::StatusCode::kInternal : absl::StatusCode::kAborted));
      break;
    case 1:
      Value(rng, message.mutable_group_value());
      break;
    case 2:
      if (rng->UniformInt(2) == 0) {
        message.mutable_bad_chunks()->set_task_id(task_->task_id());
        message.mutable_bad_chunks()->add_chunk()->set_chunk(
            static_cast<int64_t>(rng->UniformInt(100)));
        break;
      }
      message.mutable_learner_info()->set_task_id(task_->task_id());
      message.mutable_learner_info()->set_learner_step(iterations_);
      message.mutable_learner_info()->set_stalled("data");
      break;
    case 3:
      Policy(message.mutable_policy_version());
      break;
    case 4:
    case 5:
    case 6:
      Info(rng->UniformInt(100) == 0, message.mutable_learner_info());
      break;
    default:
      Demand(1 + static_cast<int64_t>(rng->UniformInt(4)), message.mutable_learner_demand());
  }
  return message;
}

void RandomLearner::Ready(GroupReady* ready) {
  ready->set_task_id(task_->task_id());
  ready->set_model_digest("d");
  ready->set_train_iter(iterations_);
  ready->set_generation(form_.has_value() ? form_->generation() : 0);
  broken_ = true;
}

void RandomLearner::Value(Rng* rng, GroupValue* value) {
  value->set_task_id(task_->task_id());
  value->set_generation(form_->generation());
  value->set_key(absl::StrCat(form_->rank()));
  value->set_value(std::string(rng->UniformInt(200), 'x'));
}

void RandomLearner::Policy(PolicyVersion* policy) {
  policy->set_policy_id(task_->policy_id());
  policy->set_version(next_version_++);
  policy->set_key(PolicyKey(policy->policy_id(), policy->version(), task_->group_worker()));
}

void RandomLearner::Info(bool done, LearnerInfo* info) {
  info->set_task_id(task_->task_id());
  info->set_learner_step(int64_t{1000} * form_->generation() + ++iterations_in_generation_);
  info->set_learner_done(done);
  iterations_ = info->learner_step();
  for (const int64_t row : learned_) {
    info->add_priority(static_cast<float>(row % 64));
    info->add_replay_unique_id(row);
    info->add_replay_buffer_idx(row + 7);
  }
  learned_.clear();
}

void RandomLearner::Demand(int64_t rows, LearnerDemand* demand) {
  demand->set_task_id(task_->task_id());
  demand->set_sequence(++demanded_);
  demand->set_batch_size(rows);
  demand->set_batches(2);
  demand->set_read(answered_);
}

void RandomLearner::Take(const CoordinatorMessage& message) {
  if (message.has_start_task()) {
    task_ = message.start_task().learner();
    EXPECT_EQ(task_->group_worker(), kAggregator);
    form_.reset();
    broken_ = false;
    iterations_ = 0;
    learned_.clear();
  } else if (message.has_close_task()) {
    if (task_.has_value() && message.close_task().task_id() == task_->task_id()) task_.reset();
  } else if (message.has_form_group()) {
    TakeForm(message.form_group());
  } else if (message.has_break_group()) {
    if (form_.has_value() && message.break_group().generation() == form_->generation()) {
      broken_ = true;
    }
  } else if (message.has_group_value()) {
    EXPECT_EQ(message.group_value().generation(), form_->generation());
  } else if (message.has_learner_data()) {
    const LearnerData& data = message.learner_data();
    EXPECT_EQ(data.task_id(), task_->task_id());
    data_.push_back(data);
    EXPECT_GT(asked_[data.sequence()]--, 0) << "a demand was answered twice";
    answered_ = std::max(answered_, data.sequence());
    for (const std::string& items : data.items()) {
      const auto rows = RowsIn(items);
      if (rows.has_value()) learned_.insert(learned_.end(), rows->begin(), rows->end());
    }
  } else {
    EXPECT_TRUE(message.has_end_run()) << "a learner was sent " << message.ShortDebugString();
  }
}

void RandomLearner::TakeForm(const FormGroup& form) {
  ASSERT_TRUE(task_.has_value());
  EXPECT_EQ(form.task_id(), task_->task_id());
  if (form_.has_value()) {
    EXPECT_GT(form.generation(), form_->generation());
  }
  form_ = form;
  forms_.push_back(form);
  broken_ = false;
  iterations_in_generation_ = 0;
  next_version_ = form.first_version();
  learned_.clear();
}

}  // namespace ding
