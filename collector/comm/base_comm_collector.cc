#include "ding_worker/collector/comm/base_comm_collector.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/comm/collected_items.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {
namespace {

enum Stage { kCollect, kPush, kEvaluate };

TaskGameResult ResultOf(double episode_return) {
  if (episode_return == 0) return TaskGameResult::DRAWS;
  return episode_return > 0 ? TaskGameResult::WINS : TaskGameResult::LOSSES;
}

// An env may give any number of values at the ends of its episodes; a message has a limit.
constexpr int kMaxInfoValues = 1000;

CollectorFinished ToMessage(const CollectorFinishInfo& info) {
  CollectorFinished message;
  message.set_eval_flag(info.eval_flag);
  message.set_env_num(info.env_num);
  message.set_duration_seconds(info.duration_seconds);
  message.set_train_iter(info.train_iter);
  message.set_policy_version(info.policy_version);
  message.set_collector_done(info.collector_done);
  message.set_predefined_episode_count(info.predefined_episode_count);
  message.set_real_episode_count(static_cast<int64_t>(info.episode_return.size()));
  message.set_step_count(info.step_count);
  message.set_sample_count(info.sample_count);
  message.set_abnormal_episode_count(info.abnormal_episode_count);
  if (info.eval_score.has_value()) message.set_eval_score(*info.eval_score);
  for (const EpisodeValue& value : info.info) {
    if (message.info_size() == kMaxInfoValues) break;
    InfoValue* const sent = message.add_info();
    sent->set_name(value.name);
    sent->set_mean(value.mean);
    sent->set_count(value.count);
  }
  for (const double episode_return : info.episode_return) {
    message.add_episode_return(episode_return);
    if (info.is_game) message.add_game_result(ResultOf(episode_return));
  }
  return message;
}

// Between two attempts to read a policy that is damaged: the learner may put it there again.
constexpr absl::Duration kPolicyRetry = absl::Seconds(1);

}  // namespace

BaseCommCollector::BaseCommCollector(WorkerSession* session, Store* store,
                                     TaskCollectorFactory factory, absl::Duration retry)
    : session_(session),
      store_(store),
      factory_(std::move(factory)),
      retry_(retry),
      slave_(session, {[this](const StartTask& start) { RunTask(start.collector()); },
                       [this] { CloseTask(); }}) {}

absl::StatusOr<EndRun> BaseCommCollector::Run() { return slave_.Serve(); }

void BaseCommCollector::Close() { session_->Close("the collector leaves the run"); }

void BaseCommCollector::CloseTask() {
  MutexLock lock(&mutex_);
  if (running_ != nullptr) running_->Close();
}

void BaseCommCollector::RunTask(const CollectorTask& task) {
  const absl::StatusOr<CollectorFinishInfo> info = Collect(task);
  const absl::Status told =
      info.ok() ? slave_.Finish(ToMessage(*info)) : slave_.Fail(info.status());
  if (!info.ok()) {
    DING_LOG(WARNING) << task.task_id() << " failed: " << info.status().message();
  }
  if (!told.ok())
    DING_LOG(INFO) << task.task_id() << ": its end is not reported: " << told.message();
}

absl::StatusOr<CollectorFinishInfo> BaseCommCollector::Collect(const CollectorTask& task) {
  policy_stalls_ = false;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<TaskCollector> made,
                        CallUser("CreateCollector()", [&] { return CreateCollector(task, this); }));
  if (made == nullptr || made->collector() == nullptr) {
    return absl::InternalError("CreateCollector() has returned no collector");
  }
  sequences_ = made->sequences();
  {
    MutexLock lock(&mutex_);
    running_ = made->collector();
    if (!slave_.TaskStatus().ok()) running_->Close();
  }
  absl::Status status = slave_.Started();
  const int64_t began = collects_since_ = stages_.Now();
  if (status.ok()) {
    status = CallUser("the collector", [&] { return made->collector()->Run(); });
  }
  {
    MutexLock lock(&mutex_);
    running_ = nullptr;
  }
  if (!slave_.TaskStatus().ok() && absl::IsCancelled(status)) status = absl::OkStatus();
  DING_RETURN_IF_ERROR(status);
  if (task.eval_flag()) stages_.AddSince(kEvaluate, began);
  return made->collector()->GetFinishInfo();
}

absl::StatusOr<std::unique_ptr<TaskCollector>> BaseCommCollector::CreateCollector(
    const CollectorTask& task, CollectorLink* link) {
  return factory_(task, link);
}

absl::Status BaseCommCollector::SendStepData(int64_t chunk, const SegmentBatch& data) {
  return store_->Put(ChunkKey(chunk), EncodedSegments(data).pieces());
}

absl::Status BaseCommCollector::DropStepData(int64_t chunk) {
  return store_->Delete(ChunkKey(chunk));
}

absl::Status BaseCommCollector::SendMetadata(std::string items, const CollectorProgress& progress) {
  return slave_.Announce(std::move(items), progress);
}

absl::StatusOr<PolicyUpdate> BaseCommCollector::GetPolicyUpdateInfo(const PolicyVersion& version) {
  DING_RETURN_IF_ERROR(store_->Get(version.key(), &read_bytes_));
  PolicyUpdate update;
  update.version = version.version();
  update.train_iter = version.train_iter();
  DING_ASSIGN_OR_RETURN(update.model, DecodeState(read_bytes_, version.key()));
  return update;
}

absl::Status BaseCommCollector::SendData(const SegmentBatch& data,
                                         const CollectorProgress& progress) {
  DING_RETURN_IF_ERROR(slave_.TaskStatus());
  stages_.AddSince(kCollect, collects_since_);
  const int64_t began = stages_.Now();
  const int64_t chunk = ChunkNumber(slave_.worker(), ++chunks_);
  DING_ASSIGN_OR_RETURN(std::string items, EncodeItems(data, chunk, sequences_));
  // Without items only the progress is new. The chunk is not stored: no learner would read it, and
  // nothing would delete it.
  const bool has_items = !items.empty();
  absl::Status sent = has_items ? PutChunk(chunk, data) : absl::OkStatus();
  if (sent.ok()) {
    sent = CallUser("SendMetadata()", [&] { return SendMetadata(std::move(items), progress); });
  }
  if (!sent.ok() && has_items) {  // Nobody will ask for it.
    const absl::Status removed = CallUser("DropStepData()", [&] { return DropStepData(chunk); });
    if (!removed.ok()) DING_LOG(WARNING) << removed.message();
  }
  stages_.AddSince(kPush, began);
  collects_since_ = stages_.Now();
  return sent;
}

absl::Status BaseCommCollector::PutChunk(int64_t chunk, const SegmentBatch& data) {
  const auto put = [&] {
    return CallUser("SendStepData()", [&] { return SendStepData(chunk, data); });
  };
  absl::Status status = put();
  if (!WorthTryingAgain(status)) return status;

  const std::string reason = absl::StrCat("the store takes no data: ", status.message());
  DING_LOG(WARNING) << reason << "; trying again every " << absl::FormatDuration(retry_);
  DING_RETURN_IF_ERROR(slave_.ReportStall(reason));
  while (WorthTryingAgain(status)) {
    DING_RETURN_IF_ERROR(slave_.Pause(retry_));
    status = put();
  }
  DING_RETURN_IF_ERROR(status);
  DING_LOG(WARNING) << "the store takes data again";
  return slave_.ReportStall("");
}

absl::Status BaseCommCollector::ReportPolicyStall(const std::string& reason) {
  if (policy_stalls_ != reason.empty()) return absl::OkStatus();
  policy_stalls_ = !reason.empty();
  return slave_.ReportStall(reason);
}

absl::StatusOr<std::optional<PolicyUpdate>> BaseCommCollector::GetPolicyUpdate(
    int player, uint64_t version, absl::Duration timeout) {
  DING_ASSIGN_OR_RETURN(std::optional<PolicyVersion> newest,
                        slave_.NewerPolicy(player, version, timeout));
  while (newest.has_value()) {
    const bool was_unreadable = newest->key() == unreadable_;
    // A collector that has another policy to act by does not look again at each step.
    if (was_unreadable && timeout == absl::ZeroDuration() && !read_again_.Passed()) break;
    absl::StatusOr<PolicyUpdate> update =
        CallUser("GetPolicyUpdateInfo()", [&] { return GetPolicyUpdateInfo(*newest); });
    if (update.ok()) {
      unreadable_.clear();
      DING_RETURN_IF_ERROR(ReportPolicyStall(""));
      return *std::move(update);
    }
    const absl::Status& why = update.status();
    // Old versions are deleted, and damaged ones put there again: there is a newer one, or will be
    // in a moment, where newer ones count.
    if (IsLost(why) ? !slave_.FollowsPolicy(player) : !WorthTryingAgain(why)) return why;
    DING_LOG_IF(WARNING, !was_unreadable && !absl::IsNotFound(why) && IsLost(why))
        << newest->key() << " cannot be read, and is waited for: " << why.message();
    unreadable_ = newest->key();
    read_again_ = Deadline::After(kPolicyRetry);
    if (timeout == absl::ZeroDuration()) break;
    if (!absl::IsNotFound(why)) {
      DING_RETURN_IF_ERROR(
          ReportPolicyStall(absl::StrCat("the store gives no policy: ", why.message())));
    }
    DING_ASSIGN_OR_RETURN(newest, slave_.NewerPolicy(player, newest->version(), timeout));
  }
  return std::nullopt;
}

}  // namespace ding
