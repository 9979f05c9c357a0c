#include "ding_worker/learner/comm/base_comm_learner.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/async_data_loader.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/learner/comm/demand_source.h"
#include "ding_worker/learner/comm/item_loader.h"
#include "ding_worker/learner/comm/model_digest.h"
#include "ding_worker/learner/comm/unsaved_checkpoints.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/hooks.h"
#include "ding_worker/learner/learner.h"

namespace ding {
namespace {

enum Stage { kSample, kLearn, kPublish };

constexpr int kHookPriority = 100;
// The source says itself that there are no data, by its own timeout.
constexpr absl::Duration kBeyondDataTimeout = absl::Minutes(1);
// Between two attempts to publish the first policy.
constexpr absl::Duration kStoreRetry = absl::Milliseconds(200);
// Between two looks whether the policy is still in the store, while no row can be read.
constexpr absl::Duration kLookForPolicy = absl::Seconds(1);
// Without a batch for so long, the learner says what it waits for; and again.
constexpr absl::Duration kPatience = absl::Seconds(1);

constexpr int kJoinGroupPriority = 50;  // after the checkpoint is loaded, before a policy is sent
constexpr int kJoinAttempts = 5;
// The aggregator has shorter ones, after which it says that the task is over.
constexpr absl::Duration kFormTimeout = absl::Minutes(10);

}  // namespace

BaseCommLearner::BaseCommLearner(const CommLearnerOptions& options, WorkerSession* session,
                                 Store* store, TaskLearnerFactory factory)
    : worker_options_(options),
      options_(options),
      session_(session),
      store_(store),
      factory_(std::move(factory)),
      // When a task is closed, its source ends, and with it Start().
      slave_(session, {[this](const StartTask& start) { RunTask(start.learner()); },
                       [this] { group_.Abort(); }}) {
  slave_.set_on_broken([this] { group_.Abort(); });
}

absl::StatusOr<EndRun> BaseCommLearner::Run() { return slave_.Serve(); }

void BaseCommLearner::Close() { session_->Close("the learner leaves the run"); }

void BaseCommLearner::RunTask(const LearnerTask& task) {
  absl::Status status = Learn(task);
  if (status.ok() && slave_.HasTask()) {
    status = absl::InternalError(
        "the learner has ended and not reported it: expected a hook of Hooks4Call() that reports "
        "after the run, and SendLearnInfo() that sends it");
  }
  if (status.ok()) return;  // The learner's last report said so.
  DING_LOG(WARNING) << task.task_id() << " failed: " << status.message();
  const absl::Status told = slave_.Fail(status);
  DING_LOG_IF(INFO, !told.ok()) << "the end of " << task.task_id() << " is not reported: " << told;
}

// Where the batches of one generation come from.
struct BaseCommLearner::DataPipeline {
  DataPipeline(const CommLearnerOptions& with, LearnerSlave* slave, ItemLoader* loads,
               std::function<absl::Status()> on_idle, DemandSource::Kind kind)
      : options(with), items(loads), source(options, slave, loads, std::move(on_idle), kind) {}

  const CommLearnerOptions options;
  const ItemLoader* const items;
  DemandSource source;
  std::unique_ptr<AsyncDataLoader> loader;
  Deadline next_look = Deadline::After(absl::ZeroDuration());  // after the policy in the store
};

absl::Status BaseCommLearner::Learn(const LearnerTask& task) {
  const bool grouped = task.has_group_worker();
  if (grouped && options_.connect_group == nullptr) {
    return absl::FailedPreconditionError(
        "this program cannot learn in a group of learners: it has no all-reduce; expected one "
        "(policy.learn.all_reduce), or policy.learn.learner_num: 1");
  }
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<TaskLearner> made, CallUser("CreateLearner()", [&] {
                          return CreateLearner(task, grouped ? &group_ : nullptr);
                        }));
  if (made == nullptr || made->learner() == nullptr) {
    return absl::InternalError("CreateLearner() has returned no learner");
  }
  options_ = worker_options_;
  made->ReadOptions(&options_);
  ILearner* const learner = made->learner();
  const bool on_policy = learner->policy()->attributes().on_policy;
  learns_in_rounds_ = on_policy || options_.lockstep;
  if (on_policy) {  // A round is one batch.
    options_.send_policy_freq = 1;
    options_.batch_size = options_.rounds.rows;
  }
  policy_id_ = task.policy_id();
  publisher_ = grouped ? task.group_worker() : slave_.worker();
  recorder_ = made->recorder();
  rounds_.clear();
  DING_RETURN_IF_ERROR(CheckVersion(task.first_version()));
  next_version_ = std::max<uint64_t>(1, task.first_version());
  asked_version_ = 0;
  ForgetPublished();
  reports_.emplace(learner->train_iter(), options_.send_info_freq, grouped);
  DING_RETURN_IF_ERROR(RegisterHooks(task, learner));
  if (!grouped) DING_RETURN_IF_ERROR(slave_.Started());
  if (task.has_init_policy() && !made->resumes()) {
    DING_RETURN_IF_ERROR(LoadInitPolicy(task, learner->policy()));
  }

  OwnData* const own = made->own_data();
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<ItemLoader> items,
                        ItemLoader::Create(store_, LoaderOptionsOf(options_, made.get())));
  std::unique_ptr<DataPipeline> pipeline;
  int64_t missing_rows = 0;
  const auto drop_pipeline = [&pipeline, &missing_rows] {
    if (pipeline == nullptr) return;
    pipeline->loader->Close();
    missing_rows += pipeline->source.missing_rows();
    pipeline.reset();
  };
  std::optional<int64_t> learns_since;
  const auto note_learned = [this, &learns_since] {
    if (learns_since.has_value()) stages_.AddSince(kLearn, *learns_since);
    learns_since.reset();
  };
  const auto next = [&]() -> absl::StatusOr<std::optional<TrainData>> {
    note_learned();
    DING_RETURN_IF_ERROR(ShowEvaluations(learner));
    const int64_t began = stages_.Now();
    while (true) {
      if (grouped && group_.broken()) {
        drop_pipeline();
        const absl::Status joined = JoinGroup(task, learner);
        if (absl::IsCancelled(joined)) return std::nullopt;
        DING_RETURN_IF_ERROR(joined);
        // The learner that published before may be gone, and may have been behind this one.
        if (learns_in_rounds_ && group_.rank() == 0) DING_RETURN_IF_ERROR(PublishPolicy(learner));
      }
      if (own == nullptr && pipeline == nullptr) {
        DING_ASSIGN_OR_RETURN(pipeline, MakePipeline(grouped, *learner, items.get()));
      }
      absl::StatusOr<std::optional<TrainData>> data =
          own != nullptr ? NextOwnData(*learner, own) : NextData(grouped, *learner, pipeline.get());
      if (grouped && !data.ok() && (slave_.GroupIsBroken() || group_.broken())) {
        group_.Abort();
        continue;
      }
      if (data.ok() && data->has_value()) {
        (*data)->settings = made->LearnSettings(learner->train_iter(), (*data)->envstep);
        if (recorder_ != nullptr) recorder_->AddBatch(*learner, **data);
        stages_.AddSince(kSample, began);
        learns_since = stages_.Now();
      } else {
        group_.Leave();  // Nobody is to wait for this one.
      }
      return data;
    }
  };
  const auto recover = [this, grouped](const absl::Status& why) {
    if (!grouped || !group_.broken()) return why;
    DING_LOG(INFO) << "the group of learners forms anew: " << why.message();
    return absl::OkStatus();
  };
  const absl::Status status =
      CallUser("the learner", [&] { return learner->Start(next, recover); });
  note_learned();
  group_.Leave();
  drop_pipeline();
  if (group_.rank() == 0) NoteLastCheckpoint(task.policy_id(), made->SaveProgress(), store_);
  if (missing_rows > 0) {
    DING_LOG(WARNING) << task.task_id() << ": " << missing_rows
                      << " drawn rows could not be read from the store and were left out";
  }
  return status;
}

absl::Status BaseCommLearner::ShowEvaluations(ILearner* learner) {
  for (const EvaluationResult& result : slave_.TakeEvaluations()) {
    if (recorder_ != nullptr) recorder_->AddEvaluation(result);
    learner->run_signals()->NoteEvaluation(EvaluationOf(result));
    DING_RETURN_IF_ERROR(learner->CallHooks(HookPosition::kAfterEval));
  }
  return absl::OkStatus();
}

absl::Status BaseCommLearner::LoadInitPolicy(const LearnerTask& task, LearnMode* policy) {
  const PolicyVersion& version = task.init_policy();
  const std::string what = absl::StrCat(task.task_id(), " cannot begin with version ",
                                        version.version(), " of ", version.policy_id());
  std::string bytes;
  absl::Status read = ReadPolicy(version, &bytes);
  while (WorthTryingAgain(read)) {
    DING_LOG_EVERY_N(WARNING, 100) << what << " yet: " << read.message();
    DING_RETURN_IF_ERROR(slave_.Pause(kStoreRetry));
    read = ReadPolicy(version, &bytes);
  }
  DING_RETURN_IF_ERROR(Annotate(read, what));
  const absl::StatusOr<std::shared_ptr<StateReader>> model = DecodeState(bytes, version.key());
  DING_RETURN_IF_ERROR(Annotate(model.status(), what));
  DING_RETURN_IF_ERROR(Annotate(policy->LoadModel(model->get()), what));
  DING_LOG(INFO) << task.task_id() << " begins with version " << version.version() << " of "
                 << version.policy_id();
  return absl::OkStatus();
}

absl::Status BaseCommLearner::RegisterHooks(const LearnerTask& task, ILearner* learner) {
  if (task.has_group_worker()) {
    learner->RegisterHook(std::make_shared<SendHook>(
        "join_group", kJoinGroupPriority, HookPosition::kBeforeRun, /*freq=*/1,
        [this, &task, learner](LearnerView*) { return JoinGroup(task, learner); }));
  }
  DING_ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<LearnerHook>> hooks,
                        CallUser("Hooks4Call()", [this] { return Hooks4Call(); }));
  for (const std::shared_ptr<LearnerHook>& hook : hooks) {
    if (hook == nullptr) return absl::InternalError("Hooks4Call() has returned a null hook");
    learner->RegisterHook(hook);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::shared_ptr<LearnerHook>>> BaseCommLearner::Hooks4Call() {
  const auto send_policy = [this](LearnerView* sender) { return PublishPolicy(sender); };
  const auto send_info = [this](LearnerView* sender) { return ReportProgress(sender); };
  std::vector<std::shared_ptr<LearnerHook>> hooks;
  for (const HookPosition position : {HookPosition::kBeforeRun, HookPosition::kAfterIter}) {
    hooks.push_back(std::make_shared<SendPolicyHook>("send_policy", kHookPriority, position,
                                                     options_.send_policy_freq, send_policy));
  }
  for (const HookPosition position : {HookPosition::kAfterIter, HookPosition::kAfterRun}) {
    hooks.push_back(std::make_shared<SendLearnInfoHook>("send_learn_info", kHookPriority, position,
                                                        /*freq=*/1, send_info));
  }
  return hooks;
}

absl::StatusOr<std::unique_ptr<TaskLearner>> BaseCommLearner::CreateLearner(const LearnerTask& task,
                                                                            GroupMember* group) {
  return factory_(task, group);
}

absl::StatusOr<std::optional<BatchLoader>> BaseCommLearner::GetData(DemandSource* source) {
  return source->Next();
}

absl::Status BaseCommLearner::SendPolicy(const PolicyVersion& version, const EncodedBatch& model) {
  return store_->Put(version.key(), model.pieces());
}

absl::Status BaseCommLearner::ReadPolicy(const PolicyVersion& version, std::string* model) {
  return store_->Get(version.key(), model);
}

absl::Status BaseCommLearner::SendLearnInfo(LearnerInfo info) {
  return slave_.SendInfo(std::move(info));
}

absl::StatusOr<std::unique_ptr<BaseCommLearner::DataPipeline>> BaseCommLearner::MakePipeline(
    bool grouped, const LearnerView& learner, ItemLoader* items) {
  CommLearnerOptions options = options_;
  options.batch_size = group_.ShareOfBatch(options_.batch_size);
  auto made = std::make_unique<DataPipeline>(
      options, &slave_, items, [this] { return RestorePolicy(); },
      learns_in_rounds_ ? DemandSource::Kind::kRounds : DemandSource::Kind::kAhead);
  // It demands before the first batch is asked for.
  made->source.set_train_iter(learner.train_iter());
  AsyncDataLoader::Options loader_options;
  loader_options.num_workers = options.loader_threads;
  loader_options.batches_ahead = options.prefetch_batches;
  loader_options.timeout = kPatience;
  DING_ASSIGN_OR_RETURN(
      made->loader, AsyncDataLoader::Create(
                        loader_options, [this, source = &made->source] { return GetData(source); },
                        /*cancel=*/
                        [this, grouped, source = &made->source] {
                          source->Close();
                          grouped ? slave_.LeaveGroup() : slave_.CancelTask();
                        }));
  return made;
}

absl::StatusOr<std::optional<TrainData>> BaseCommLearner::NextData(bool grouped,
                                                                   const LearnerView& learner,
                                                                   DataPipeline* pipeline) {
  pipeline->source.set_train_iter(learner.train_iter());
  // In a group each batch is a round, and only rank 0 publishes.
  const bool published = std::exchange(asked_version_, next_version_) != next_version_;
  if (learns_in_rounds_ && (published || grouped)) {
    AskForRound(learner.train_iter(), &pipeline->source);
  }
  Timer since_told(Clock::Real());
  Timer since_batch(Clock::Real());  // also one without rows
  while (true) {
    absl::StatusOr<std::optional<TrainData>> data = pipeline->loader->Next();
    if (options_.lockstep && pipeline->source.missing_rows() > 0) {
      return Annotate(pipeline->source.why_missing(), "in lockstep no row may be lost");
    }
    if (absl::IsDeadlineExceeded(data.status())) {
      // The loader may give up in the same moment, and knows less.
      DING_RETURN_IF_ERROR(pipeline->source.timeout());
    }
    const bool late = absl::IsDeadlineExceeded(data.status()) &&
                      since_batch.Elapsed() < options_.data_timeout + kBeyondDataTimeout;
    const bool empty = data.ok() && data->has_value() && (*data)->batch.empty();
    if (!late && !empty) return data;
    if (empty && learns_in_rounds_ && grouped) {
      group_.Abort();
      DING_LOG(WARNING) << "no row of this learner's part of a round can be read: "
                        << pipeline->source.why_missing().message();
      return absl::UnavailableError("this learner has nothing to learn from in the group's round");
    }
    if (empty) {  // None of its rows could be read.
      since_batch = Timer(Clock::Real());
      if (learns_in_rounds_) AskForRound(learner.train_iter(), &pipeline->source);
      if (pipeline->next_look.Passed()) {
        DING_RETURN_IF_ERROR(RestorePolicy());
        pipeline->next_look = Deadline::After(kLookForPolicy);
      }
    }
    if (since_told.Elapsed() < kPatience) continue;
    const std::string why = WaitsFor(*pipeline, empty);
    // The source reports the other causes.
    if (!why.empty()) DING_RETURN_IF_ERROR(ReportStall(learner.train_iter(), why));
    since_told = Timer(Clock::Real());
  }
}

absl::StatusOr<std::optional<TrainData>> BaseCommLearner::NextOwnData(const LearnerView& learner,
                                                                      OwnData* own) {
  const absl::Status task = slave_.TaskStatus();
  if (absl::IsCancelled(task)) return std::nullopt;
  DING_RETURN_IF_ERROR(task);
  DING_ASSIGN_OR_RETURN(Batch batch,
                        own->BatchOf(learner.train_iter(), group_.rank(), group_.world_size()));
  return TrainData(std::move(batch));
}

std::string BaseCommLearner::WaitsFor(const DataPipeline& pipeline, bool empty) const {
  if (empty) {
    return absl::StrCat("rows that can be read: ", pipeline.source.why_missing().message());
  }
  const std::optional<PendingRead> read = pipeline.items->pending_read();
  if (!read.has_value() || read->since < kPatience) return "";
  return absl::StrCat("the store, which has not given '", ChunkKey(read->chunk), "' for ",
                      absl::FormatDuration(absl::Trunc(read->since, absl::Seconds(1))));
}

absl::Status BaseCommLearner::JoinGroup(const LearnerTask& task, ILearner* learner) {
  DING_ASSIGN_OR_RETURN(const std::string digest, ModelDigest(*learner->policy()));
  absl::Status status;
  for (int attempt = 0; attempt < kJoinAttempts; ++attempt) {
    group_.Leave();
    GroupReady ready;
    ready.set_model_digest(digest);
    ready.set_train_iter(learner->train_iter());
    ready.set_why(std::string(status.message()));
    DING_ASSIGN_OR_RETURN(const FormGroup form, slave_.NextGroup(std::move(ready), kFormTimeout));
    status = EnterGeneration(form, learner);
    if (status.ok()) {
      DING_LOG(INFO) << task.task_id() << ": rank " << group_.rank() << " of "
                     << group_.world_size() << " learners from iteration " << learner->train_iter()
                     << " on";
      return status;
    }
    DING_RETURN_IF_ERROR(slave_.TaskStatus());
    DING_LOG(WARNING) << task.task_id() << ": generation " << form.generation()
                      << " of the group does not come together: " << status.message();
  }
  return Annotate(status, absl::StrCat(kJoinAttempts, " groups of learners did not come together"));
}

absl::Status BaseCommLearner::EnterGeneration(const FormGroup& form, ILearner* learner) {
  AllReduceOptions options;
  options.group = absl::StrCat(form.task_id(), "/", form.generation());
  options.rank = form.rank();
  options.world_size = form.world_size();
  options.timeout = options_.group_timeout;
  options.host = options_.group_host;
  DING_ASSIGN_OR_RETURN(std::unique_ptr<AllReduce> generation,
                        options_.connect_group(options, &slave_));
  group_.Enter(std::move(generation));
  // It was over before it began.
  if (slave_.GroupIsBroken()) return absl::AbortedError("a learner left the group before it began");
  std::string state;
  if (group_.rank() == 0) {
    DING_ASSIGN_OR_RETURN(const EncodedBatch encoded, EncodeLearner(*learner));
    state = encoded.ToString();
  }
  DING_RETURN_IF_ERROR(group_.Broadcast(&state));
  if (group_.rank() != 0) DING_RETURN_IF_ERROR(DecodeLearner(state, learner));
  next_version_ = form.first_version();
  reports_->Restart(learner->train_iter());
  ForgetPublished();
  return absl::OkStatus();
}

absl::Status BaseCommLearner::PublishPolicy(LearnerView* learner) {
  const StageTimer::Scope publishing(&stages_, kPublish);
  DING_ASSIGN_OR_RETURN(EncodedBatch model, EncodeState([learner](StateWriter* writer) {
                          return learner->policy()->SaveModel(writer);
                        }));
  PolicyVersion policy;
  policy.set_policy_id(policy_id_);
  policy.set_version(next_version_);
  policy.set_train_iter(learner->train_iter());
  policy.set_key(PolicyKey(policy_id_, next_version_, publisher_));
  const auto publish = [&]() -> absl::Status {
    MutexLock lock(&mutex_);
    DING_RETURN_IF_ERROR(SendPolicy(policy, model));
    published_version_ = policy;
    published_ = std::move(model);
    return absl::OkStatus();
  };
  absl::Status put = publish();
  // Without a first one no collector begins, and nothing is learned.
  // And in rounds the collectors' rows would soon be too old.
  while (WorthTryingAgain(put) && (next_version_ == 1 || learns_in_rounds_)) {
    DING_RETURN_IF_ERROR(ReportStall(learner->train_iter(),
                                     absl::StrCat("the store takes no policy: ", put.message())));
    DING_RETURN_IF_ERROR(slave_.Pause(kStoreRetry));
    put = publish();
  }
  if (WorthTryingAgain(put)) {
    // The collectors go on with an older one; the next one may be stored again.
    DING_LOG_EVERY_N(WARNING, 100) << "a policy version is not published: " << put.message();
    reports_->set_stalled(absl::StrCat("the store takes no policy: ", put.message()));
    return absl::OkStatus();
  }
  DING_RETURN_IF_ERROR(put);
  reports_->set_stalled("");
  ++next_version_;
  if (recorder_ != nullptr) recorder_->AddVersion(policy, *learner);
  return slave_.SendPolicy(policy);
}

void BaseCommLearner::AskForRound(int64_t train_iter, DemandSource* source) {
  if (rounds_.empty() || rounds_.back() != train_iter) rounds_.push_back(train_iter);
  while (static_cast<int64_t>(rounds_.size()) > options_.rounds.max_data_age + 1) {
    rounds_.pop_front();
  }
  source->AskForRound(rounds_);
}

void BaseCommLearner::ForgetPublished() {
  MutexLock lock(&mutex_);
  published_.reset();
}

absl::Status BaseCommLearner::RestorePolicy() {
  MutexLock lock(&mutex_);
  if (!published_.has_value()) return absl::OkStatus();
  const absl::Status found = ReadPolicy(published_version_, &found_);
  if (!IsLost(found)) return absl::OkStatus();
  const absl::Status put = SendPolicy(published_version_, *published_);
  if (WorthTryingAgain(put)) return absl::OkStatus();
  DING_RETURN_IF_ERROR(put);
  DING_LOG(WARNING) << found.message() << ": it is put there again";
  return absl::OkStatus();
}

absl::Status BaseCommLearner::ReportStall(int64_t train_iter, const std::string& why) {
  return slave_.SendInfo(reports_->Stall(train_iter, why));
}

absl::Status BaseCommLearner::ReportProgress(LearnerView* learner) {
  std::optional<LearnerInfo> report = reports_->Add(learner);
  return report.has_value() ? SendLearnInfo(*std::move(report)) : absl::OkStatus();
}

}  // namespace ding
