#include "ding_worker/learner/comm/demand_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/learner/comm/task_learner.h"

namespace ding {
namespace {

// Two demands are enough to have one under way while the batches of the other are learned from.
constexpr int kDemands = 2;
// After that long without data, the learner says that it waits; and again, it is idle.
constexpr absl::Duration kPatience = absl::Seconds(1);
// Chunks that are remembered to have been reported: batches that were drawn ahead name them again.
constexpr size_t kMaxReported = 4096;
// That rows are missing is logged once in that many batches, and when there is another reason.
constexpr int kToldBatches = 100;

}  // namespace

ItemLoaderOptions LoaderOptionsOf(const CommLearnerOptions& options, TaskLearner* learner) {
  ItemLoaderOptions loader;
  loader.nstep = options.nstep;
  loader.gamma = options.gamma;
  loader.sequences = learner->learner()->policy()->attributes().on_policy ? options.rounds.sequences
                                                                          : options.sequences;
  loader.concatenates =
      learner->learner()->policy()->attributes().on_policy && loader.sequences.whole_episodes;
  loader.cache_bytes = options.cache_bytes;
  loader.cache_rows = options.cache_rows;
  const CollectedLayout collected = learner->collected();
  loader.rows = collected.rows;
  loader.final_obs = collected.final_obs;
  if (LearnRecorder* const recorder = learner->recorder()) {
    loader.on_chunk = [recorder](int64_t chunk, absl::string_view bytes) {
      recorder->AddChunk(chunk, bytes);
    };
  }
  return loader;
}

DemandSource::DemandSource(const CommLearnerOptions& options, LearnerSlave* slave,
                           ItemLoader* loader, std::function<absl::Status()> on_idle, Kind kind)
    : options_(options),
      slave_(slave),
      loader_(loader),
      on_idle_(std::move(on_idle)),
      kind_(kind),
      batches_per_demand_(kind == Kind::kRounds
                              ? static_cast<int>(options.send_policy_freq)
                              : std::max(1, options.prefetch_batches / kDemands)) {}

void DemandSource::AskForRound(const std::deque<int64_t>& collect_iters) {
  MutexLock lock(&mutex_);
  collect_iters_.assign(collect_iters.begin(), collect_iters.end());
  asked_ = true;
  asked_changed_.SignalAll();
}

void DemandSource::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  asked_changed_.SignalAll();
}

absl::StatusOr<std::optional<BatchLoader>> DemandSource::Next() {
  absl::Status status;
  if (kind_ == Kind::kRounds && drawn_.empty()) {
    status = WaitForAsk();
    if (status.ok()) status = Demand();
  }
  while (status.ok() && drawn_.empty()) {
    status = DemandAhead();
    if (status.ok()) status = Wait();
  }
  if (absl::IsCancelled(status)) return std::nullopt;
  DING_RETURN_IF_ERROR(status);
  BatchLoader load = [this, drawn = std::move(drawn_.front())]() mutable { return Load(&drawn); };
  drawn_.pop_front();
  return load;
}

absl::Status DemandSource::WaitForAsk() {
  MutexLock lock(&mutex_);
  while (!asked_ && !closed_) asked_changed_.WaitFor(&mutex_, absl::InfiniteDuration());
  if (closed_) return absl::CancelledError("no further round is learned from");
  asked_ = false;
  return absl::OkStatus();
}

absl::Status DemandSource::DemandAhead() {
  absl::Status status;
  while (status.ok() && kind_ == Kind::kAhead && under_way_ < kDemands) status = Demand();
  return status;
}

absl::Status DemandSource::Demand() {
  std::vector<int64_t> collect_iters;
  {
    MutexLock lock(&mutex_);
    collect_iters = collect_iters_;
  }
  DING_RETURN_IF_ERROR(slave_
                           ->Demand(options_.batch_size, batches_per_demand_,
                                    train_iter_.load(std::memory_order_relaxed), collect_iters)
                           .status());
  ++under_way_;
  return absl::OkStatus();
}

absl::Status DemandSource::timeout() const {
  if (!timed_out_.load(std::memory_order_relaxed)) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("no data to learn from within ", absl::FormatDuration(options_.data_timeout),
                   " (policy.learn.data_timeout): no collector delivers enough"));
}

absl::Status DemandSource::Wait() {
  absl::Duration left = options_.data_timeout;
  absl::StatusOr<LearnerData> data = slave_->NextData(std::min(kPatience, left));
  for (bool told = false; absl::IsDeadlineExceeded(data.status()) && left > kPatience;
       told = true) {
    left -= kPatience;
    if (!told) {
      LearnerInfo info;
      info.set_learner_step(train_iter_.load(std::memory_order_relaxed));
      info.set_stalled("data");
      DING_RETURN_IF_ERROR(slave_->SendInfo(info));
    }
    if (on_idle_ != nullptr) DING_RETURN_IF_ERROR(on_idle_());
    data = slave_->NextData(std::min(kPatience, left));
  }
  if (absl::IsDeadlineExceeded(data.status())) {
    timed_out_.store(true, std::memory_order_relaxed);
    return timeout();
  }
  DING_RETURN_IF_ERROR(data.status());
  --under_way_;
  for (std::string& items : *data->mutable_items()) {
    drawn_.push_back({std::move(items), data->sequence(), data->envstep()});
  }
  return DemandAhead();
}

absl::StatusOr<TrainData> DemandSource::Load(Drawn* drawn) {
  DING_ASSIGN_OR_RETURN(const Batch items, DecodeBatch(drawn->items));
  DING_ASSIGN_OR_RETURN(LoadedItems loaded, loader_->Load(items));
  missing_rows_.fetch_add(loaded.missing, std::memory_order_relaxed);
  if (loaded.missing > 0) {
    bool tells = false;
    {
      MutexLock lock(&mutex_);
      const bool is_new = loaded.why_missing.code() != why_missing_.code();
      missing_batches_ = is_new ? 0 : missing_batches_ + 1;
      tells = missing_batches_ % kToldBatches == 0;
      why_missing_ = loaded.why_missing;
    }
    DING_LOG_IF(WARNING, tells) << loaded.missing << " of " << items.rows()
                                << " drawn rows are left out: " << loaded.why_missing.message();
    const auto found = static_cast<int64_t>(loaded.found.size());
    DING_ASSIGN_OR_RETURN(BatchBuilder rest, BatchBuilder::Create(items.spec_ptr(), found));
    GatherRows(items.view(), loaded.found, rest.view(), 0);
    drawn->items = EncodedBatch(std::move(rest).Seal(found)).ToString();
  }
  DING_RETURN_IF_ERROR(Report(loaded.unusable));
  slave_->CountRead(drawn->sequence);
  TrainData data(std::move(loaded.batch), drawn->envstep);
  data.items = std::move(drawn->items);
  return data;
}

absl::Status DemandSource::Report(const std::vector<UnusableChunk>& unusable) {
  BadChunks bad;
  {
    MutexLock lock(&mutex_);
    if (reported_.size() > kMaxReported) reported_.clear();
    for (const UnusableChunk& chunk : unusable) {
      if (bad.chunk_size() == kMaxBadChunks) break;  // The others are met again.
      if (!reported_.insert(chunk.chunk).second) continue;
      BadChunk* const told = bad.add_chunk();
      told->set_chunk(chunk.chunk);
      told->set_gone(absl::IsNotFound(chunk.why));
      told->set_reason(ForPeople(chunk.why.message()));
    }
  }
  return bad.chunk_size() == 0 ? absl::OkStatus() : slave_->SendBadChunks(std::move(bad));
}

absl::Status DemandSource::why_missing() const {
  MutexLock lock(&mutex_);
  return why_missing_;
}

}  // namespace ding
