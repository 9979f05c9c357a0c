#include "ding_worker/learner/comm/rpc_file_system_learner.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/state_wire.h"
#include "ding_worker/interaction/chunk_key.h"
#include "ding_worker/interaction/protocol.h"
#include "ding_worker/learner/async_data_loader.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/comm/demand_source.h"
#include "ding_worker/learner/comm/item_loader.h"
#include "ding_worker/learner/parallel_hooks.h"
#include "glog/logging.h"

namespace ding {
namespace {

constexpr int kHookPriority = 100;
// The source says itself that there are no data, by its own timeout.
constexpr absl::Duration kBeyondDataTimeout = absl::Minutes(1);
// Between two attempts to publish the first policy.
constexpr absl::Duration kStoreRetry = absl::Milliseconds(200);
// Between two looks whether the policy is still in the store, while no row can be read.
constexpr absl::Duration kLookForPolicy = absl::Seconds(1);

bool WorthTryingAgain(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
}

void AddPriorities(const PriorityInfo& priorities, LearnerInfo* info) {
  for (size_t i = 0; i < priorities.priority.size(); ++i) {
    info->add_priority(priorities.priority[i]);
    info->add_replay_unique_id(priorities.replay_unique_id[i]);
    info->add_replay_buffer_idx(priorities.replay_buffer_idx[i]);
  }
}

}  // namespace

RpcFileSystemLearner::RpcFileSystemLearner(const CommLearnerOptions& options,
                                           WorkerSession* session, Store* store,
                                           TaskLearnerFactory factory)
    : options_(options),
      session_(session),
      store_(store),
      factory_(std::move(factory)),
      // When a task is closed, its source ends, and with it Start().
      slave_(session, {[this](const StartTask& start) { RunTask(start.learner()); },
                       /*close=*/nullptr}) {}

absl::StatusOr<EndRun> RpcFileSystemLearner::Run() { return slave_.Serve(); }

void RpcFileSystemLearner::Close() { session_->Close("the learner leaves the run"); }

void RpcFileSystemLearner::RunTask(const LearnerTask& task) {
  const absl::Status status = Learn(task);
  if (status.ok()) return;  // The learner's last report said so.
  LOG(WARNING) << task.task_id() << " failed: " << status.message();
  const absl::Status told = slave_.Fail(status);
  if (!told.ok()) LOG(INFO) << task.task_id() << ": its end is not reported: " << told.message();
}

absl::Status RpcFileSystemLearner::Learn(const LearnerTask& task) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<TaskLearner> made, factory_(task));
  BaseLearner* const learner = made->learner();
  next_version_ = std::max<uint64_t>(1, task.first_version());
  info_.Clear();
  {
    MutexLock lock(&mutex_);
    published_key_.clear();
    published_.reset();
  }
  reported_iter_ = learner->train_iter();
  const auto send_policy = [this, &task](BaseLearner* sender) { return SendPolicy(task, sender); };
  const auto send_info = [this](BaseLearner* sender) { return SendInfo(sender); };
  for (const HookPosition position : {HookPosition::kBeforeRun, HookPosition::kAfterIter}) {
    learner->RegisterHook(std::make_shared<SendPolicyHook>("send_policy", kHookPriority, position,
                                                           options_.send_policy_freq, send_policy));
  }
  for (const HookPosition position : {HookPosition::kAfterIter, HookPosition::kAfterRun}) {
    learner->RegisterHook(std::make_shared<SendLearnInfoHook>("send_learn_info", kHookPriority,
                                                              position, /*freq=*/1, send_info));
  }
  DING_RETURN_IF_ERROR(slave_.Started());

  ItemLoaderOptions item_options;
  item_options.nstep = options_.nstep;
  item_options.gamma = options_.gamma;
  item_options.cache_bytes = options_.cache_bytes;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<ItemLoader> items,
                        ItemLoader::Create(store_, item_options));
  DemandSource source(options_, &slave_, items.get(), [this] { return RestorePolicy(); });
  AsyncDataLoader::Options loader_options;
  loader_options.num_workers = options_.loader_threads;
  loader_options.batches_ahead = options_.prefetch_batches;
  loader_options.timeout = options_.data_timeout + kBeyondDataTimeout;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<AsyncDataLoader> loader,
                        AsyncDataLoader::Create(
                            loader_options, [&source] { return source.Next(); },
                            /*cancel=*/[this] { slave_.CancelTask(); }));
  absl::Time next_look = absl::InfinitePast();
  const auto next = [&]() -> absl::StatusOr<std::optional<TrainData>> {
    source.set_train_iter(learner->train_iter());
    DING_ASSIGN_OR_RETURN(std::optional<TrainData> data, loader->Next());
    while (data.has_value() && data->batch.empty()) {  // None of its rows could be read.
      if (absl::Now() >= next_look) {
        DING_RETURN_IF_ERROR(RestorePolicy());
        next_look = absl::Now() + kLookForPolicy;
      }
      DING_ASSIGN_OR_RETURN(data, loader->Next());
    }
    if (data.has_value()) {
      data->settings = made->LearnSettings(learner->train_iter(), data->envstep);
    }
    return data;
  };
  const absl::Status status = learner->Start(next);
  loader->Close();
  const absl::Status saved = made->SaveProgress();
  if (!saved.ok()) LOG(WARNING) << task.task_id() << ": not saved at its end: " << saved.message();
  if (source.missing_rows() > 0) {
    LOG(WARNING) << task.task_id() << ": " << source.missing_rows()
                 << " drawn rows could not be read from the store and were left out";
  }
  return status;
}

absl::Status RpcFileSystemLearner::SendPolicy(const LearnerTask& task, BaseLearner* learner) {
  DING_ASSIGN_OR_RETURN(EncodedBatch model, EncodeState([learner](StateWriter* writer) {
                          return learner->policy()->SaveModel(writer);
                        }));
  PolicyVersion policy;
  policy.set_policy_id(task.policy_id());
  policy.set_version(next_version_);
  policy.set_train_iter(learner->train_iter());
  policy.set_key(PolicyKey(task.policy_id(), next_version_, slave_.worker()));
  const auto publish = [&]() -> absl::Status {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(store_->Put(policy.key(), model.pieces()));
    published_key_ = policy.key();
    published_ = std::move(model);
    return absl::OkStatus();
  };
  absl::Status put = publish();
  // Without a first one no collector begins, and nothing is learned.
  while (WorthTryingAgain(put) && next_version_ == 1) {
    DING_RETURN_IF_ERROR(ReportStall(learner, put));
    DING_RETURN_IF_ERROR(slave_.Pause(kStoreRetry));
    put = publish();
  }
  if (WorthTryingAgain(put)) {
    // The collectors go on with an older one; the next one may be stored again.
    LOG_EVERY_N(WARNING, 100) << "a policy version is not published: " << put.message();
    return absl::OkStatus();
  }
  DING_RETURN_IF_ERROR(put);
  ++next_version_;
  return slave_.SendPolicy(policy);
}

absl::Status RpcFileSystemLearner::RestorePolicy() {
  MutexLock lock(&mutex_);
  if (published_key_.empty()) return absl::OkStatus();
  const absl::Status found = store_->Get(published_key_, &found_);
  if (!absl::IsNotFound(found)) return absl::OkStatus();
  const absl::Status put = store_->Put(published_key_, published_->pieces());
  if (WorthTryingAgain(put)) return absl::OkStatus();
  DING_RETURN_IF_ERROR(put);
  LOG(WARNING) << found.message() << ": it is put there again";
  return absl::OkStatus();
}

absl::Status RpcFileSystemLearner::ReportStall(BaseLearner* learner, const absl::Status& why) {
  LearnerInfo info;
  info.set_learner_step(learner->train_iter());
  info.set_stalled(absl::StrCat("the store takes no policy: ", why.message()));
  return slave_.SendInfo(std::move(info));
}

absl::Status RpcFileSystemLearner::SendInfo(BaseLearner* learner) {
  const LearnInfo info = learner->learn_info();
  if (info.priority_info.has_value() && !info.learner_done) {
    AddPriorities(*info.priority_info, &info_);
  }
  const bool due = learner->train_iter() >= reported_iter_ + options_.send_info_freq;
  if (!due && !info.learner_done) return absl::OkStatus();
  info_.set_learner_step(info.learner_step);
  info_.set_learner_done(info.learner_done);
  if (learner->current_step() != nullptr) {
    ToSettings(learner->current_step()->scalars, info_.mutable_value());
  }
  reported_iter_ = info.learner_step;
  return slave_.SendInfo(std::exchange(info_, LearnerInfo()));
}

}  // namespace ding
