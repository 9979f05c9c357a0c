#include "ding_worker/env/env_manager_core.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"

namespace ding {
absl::Status EnvManagerCore::CheckOptions(const Options& options,
                                          std::vector<std::string> problems) {
  if (options.episode_num < 0) {
    problems.push_back(
        absl::StrCat("episode_num is ", options.episode_num, ", expected 0 (no limit) or more"));
  }
  if (options.max_retry < 1) {
    problems.push_back(
        absl::StrCat("max_retry is ", options.max_retry, ", expected at least 1 attempt"));
  }
  if (options.retry_waiting_time < absl::ZeroDuration() ||
      options.retry_waiting_time == absl::InfiniteDuration()) {
    problems.push_back(absl::StrCat("retry_waiting_time is ",
                                    absl::FormatDuration(options.retry_waiting_time),
                                    ", expected 0 or more seconds"));
  }
  if (options.max_abnormal_steps < 0) {
    problems.push_back(
        absl::StrCat("max_abnormal_steps is ", options.max_abnormal_steps, ", expected 0 or more"));
  }
  return ProblemsToStatus(problems, "env manager");
}

absl::StatusOr<EnvManagerCore::Blocks> EnvManagerCore::Blocks::Create(const EnvSpec& spec,
                                                                      int env_num) {
  DING_ASSIGN_OR_RETURN(BatchBuilder ready, ZeroedRows(spec.observation, env_num));
  DING_ASSIGN_OR_RETURN(BatchBuilder final, ZeroedRows(spec.observation, env_num));
  Blocks blocks{std::move(ready), std::move(final), std::nullopt};
  if (spec.info != nullptr) {
    DING_ASSIGN_OR_RETURN(blocks.info, ZeroedRows(spec.info, env_num));
  }
  return blocks;
}

EnvManagerCore::EnvManagerCore(Options options, EnvSpec spec, MutableColumnsView rows,
                               Blocks blocks)
    : options_(std::move(options)),
      spec_(std::move(spec)),
      rows_(rows),
      env_num_(static_cast<int>(rows.rows())),
      components_(spec_.reward_components()),
      has_more_(spec_.players > 1 || components_ > 0 || spec_.info != nullptr),
      slots_(static_cast<size_t>(rows.rows())),
      blocks_(std::move(blocks)) {
  for (int i = 0; i < spec_.observation->size(); ++i) {
    if (spec_.observation->field(i).dtype == DType::kFloat32) float_fields_.push_back(i);
  }
  bool has_masks = false;
  for (int i = 0; i < spec_.players; ++i) {
    mask_fields_.push_back(ActionMaskField(spec_, i));
    has_masks |= mask_fields_.back() >= 0;
  }
  if (!has_masks) mask_fields_.clear();
  const size_t count = slots_.size();
  const auto others = static_cast<size_t>(spec_.players - 1);
  for (size_t i = 0; i < count; ++i) {
    slots_[i].seed = i;
    slots_[i].other_returns.resize(others);
    if (others > 0) slots_[i].out.resize(others + 1);
    slots_[i].component_returns.resize(static_cast<size_t>(components_));
  }
  all_ids_.resize(count);
  std::iota(all_ids_.begin(), all_ids_.end(), 0);
  // Reserve memory here, so that no step allocates.
  ready_ids_.reserve(count);
  ready_sources_.reserve(count);
  stepped_ids_.reserve(count);
  reset_ids_.reserve(count);
  ended_.reserve(count);
  finished_.reserve(count);
  reward_.resize(count);
  other_rewards_.resize(count * others);
  reward_components_.resize(count * static_cast<size_t>(components_));
  ends_.resize(3 * count);
  ForgetEnds();
}

std::string EnvManagerCore::EnvName(int env_id) const {
  return absl::StrCat("env ", env_id, " (", spec_.name, ")");
}

absl::Status EnvManagerCore::CheckEnvId(int env_id) const {
  if (env_id >= 0 && env_id < env_num()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("there is no env ", env_id, ", only 0..", env_num() - 1));
}

absl::Status EnvManagerCore::CheckOpen(absl::string_view call) const {
  if (in_callback_) return InCallback(call);
  if (!closed_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(call, ": the env manager is closed; Launch() comes first"));
}

void EnvManagerCore::SetState(int env_id, EnvState state) {
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  slot.state = state;
  const bool ready = state == EnvState::kRun && !slot.asked;
  if (slot.ready == ready) return;
  slot.ready = ready;
  ready_ids_known_ = false;
}

void EnvManagerCore::NoteAsked(int env_id, EnvState state) {
  slots_[static_cast<size_t>(env_id)].asked = true;
  SetState(env_id, state);
}

void EnvManagerCore::NoteAnswered(int env_id) {
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  slot.asked = false;
  SetState(env_id, slot.state);
}

EnvState EnvManagerCore::env_state(int env_id) const {
  DING_CHECK(CheckEnvId(env_id).ok()) << CheckEnvId(env_id).ToString();
  return slots_[static_cast<size_t>(env_id)].state;
}

bool EnvManagerCore::done() const {
  for (const Slot& slot : slots_) {
    if (slot.state != EnvState::kDone) return false;
  }
  return true;
}

absl::Status EnvManagerCore::Seed(absl::Span<const uint64_t> seeds, bool dynamic) {
  if (in_callback_) return InCallback("Seed");
  if (seeds.size() != slots_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", seeds.size(), " seeds for ", slots_.size(), " envs"));
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].seed = seeds[i];
    slots_[i].episodes_begun = 0;
  }
  dynamic_seed_ = dynamic;
  return absl::OkStatus();
}

EpisodeStart EnvManagerCore::NextEpisode(int env_id) {
  EpisodeStart start = PeekNextEpisode(env_id);
  ++slots_[static_cast<size_t>(env_id)].episodes_begun;
  return start;
}

EpisodeStart EnvManagerCore::PeekNextEpisode(int env_id) const {
  const Slot& slot = slots_[static_cast<size_t>(env_id)];
  const auto index = static_cast<uint64_t>(slot.episodes_begun);
  static constexpr Rng::Purpose kEpisode("env/episode");
  return {dynamic_seed_ ? Rng::DeriveSeed(slot.seed, kEpisode, index) : slot.seed, slot.params};
}

absl::Status EnvManagerCore::Began(int env_id, const EpisodeStart& start,
                                   const absl::Status& status) {
  if (IsBadValue(status)) {
    return absl::InternalError(absl::StrCat(EnvName(env_id), ": reset failed (seed ", start.seed,
                                            "): ", status.message()));
  }
  if (!status.ok()) {
    return Annotate(status, absl::StrCat(EnvName(env_id), ": reset failed (seed ", start.seed,
                                         ", attempts: ", options_.max_retry, ")"));
  }
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  slot.length = 0;
  slot.episode_return = 0;
  slot.other_returns.assign(static_cast<size_t>(spec_.players - 1), 0);
  slot.component_returns.assign(static_cast<size_t>(components_), 0);
  std::fill(slot.out.begin(), slot.out.end(), 0);
  SetState(env_id, EnvState::kRun);
  return status;
}

bool EnvManagerCore::SkipsEpisode(int env_id, const absl::Status& status) {
  if (ABSL_PREDICT_TRUE(status.ok()) || !DropsStep(status)) return false;
  Slot& slot = slots_[static_cast<size_t>(env_id)];
  if (slot.abnormal_in_a_row >= options_.max_abnormal_steps) return false;
  ++slot.abnormal_in_a_row;
  std::fprintf(stderr,
               "WARNING: %s: its first observation is dropped, the next episode begins: %s\n",
               EnvName(env_id).c_str(), std::string(status.message()).c_str());
  return true;
}

absl::Status EnvManagerCore::BeginEpisodes(absl::Span<const int> env_ids) {
  DING_RETURN_IF_ERROR(Settle(env_ids));
  const absl::Status status = ResetEnvs(env_ids);
  if (!status.ok()) Close();
  return status;
}

absl::Status EnvManagerCore::Launch() {
  if (in_callback_) return InCallback("Launch");
  if (!closed_)
    return absl::FailedPreconditionError(
        "Launch: the env manager is launched already; Close() it first");
  closed_ = false;
  for (Slot& slot : slots_) {
    slot.episodes_begun = 0;
    slot.params.Clear();
  }
  return Reset();
}

absl::Status EnvManagerCore::Reset() {
  DING_RETURN_IF_ERROR(CheckOpen("Reset"));
  for (Slot& slot : slots_) {
    slot.episodes_done = 0;
    slot.abnormal_in_a_row = 0;
  }
  return BeginEpisodes(all_ids_);
}

absl::Status EnvManagerCore::Reset(absl::Span<const EnvReset> envs) {
  DING_RETURN_IF_ERROR(CheckOpen("Reset"));
  std::vector<int> env_ids;
  for (const EnvReset& reset : envs) {
    DING_RETURN_IF_ERROR(Annotate(CheckEnvId(reset.env_id), "Reset"));
    if (std::find(env_ids.begin(), env_ids.end(), reset.env_id) != env_ids.end()) {
      return absl::InvalidArgumentError(absl::StrCat("Reset: ", EnvName(reset.env_id),
                                                     " occurs twice in the list of envs to reset"));
    }
    env_ids.push_back(reset.env_id);
  }
  for (const EnvReset& reset : envs) {
    Slot& slot = slots_[static_cast<size_t>(reset.env_id)];
    if (reset.params.has_value()) slot.params = *reset.params;
    slot.abnormal_in_a_row = 0;
  }
  return BeginEpisodes(env_ids);
}

void EnvManagerCore::Close() {
  close_after_callback_ = in_callback_;
  if (in_callback_) return;
  EndEnvs();
  for (const int env_id : all_ids_) {
    slots_[static_cast<size_t>(env_id)].asked = false;
    SetState(env_id, EnvState::kVoid);
  }
  closed_ = true;
}

ReadyObs EnvManagerCore::ready_obs() {
  if (!ready_ids_known_) {
    ready_ids_.clear();
    ready_sources_.clear();
    for (const int env_id : all_ids_) {
      if (!slots_[static_cast<size_t>(env_id)].ready) continue;
      ready_ids_.push_back(env_id);
      ready_sources_.push_back(env_id);
    }
    ready_ids_known_ = true;
  }
  const int64_t count = static_cast<int64_t>(ready_ids_.size());
  if (count == 0) return {ready_ids_, rows_.Slice(0, 0)};
  // A contiguous range of rows needs no copy.
  if (ready_ids_.back() - ready_ids_.front() + 1 == count) {
    return {ready_ids_, rows_.Slice(ready_ids_.front(), count)};
  }
  GatherRows(rows_, ready_sources_, blocks_.ready.view(), 0);
  return {ready_ids_, blocks_.ready.view().Slice(0, count)};
}

absl::Status EnvManagerCore::CheckStep(absl::Span<const int> env_ids, const ColumnsView& actions) {
  if (ABSL_PREDICT_FALSE(closed_ || in_callback_)) return CheckOpen("Step");
  ++step_count_;
  // If the caller passes the list that ready_obs() returned, every env is ready and occurs once.
  const bool as_told = ready_ids_known_ && env_ids.data() == ready_ids_.data() &&
                       env_ids.size() == ready_ids_.size();
  for (const int env_id : as_told ? absl::Span<const int>() : env_ids) {
    if (ABSL_PREDICT_FALSE(env_id < 0 || env_id >= env_num())) return CheckEnvId(env_id);
    Slot& slot = slots_[static_cast<size_t>(env_id)];
    if (ABSL_PREDICT_FALSE(!slot.ready)) {
      return absl::FailedPreconditionError(
          absl::StrCat(EnvName(env_id), " is in state ", EnvStateName(slot.state),
                       slot.asked ? ", has not answered yet" : "",
                       " and cannot be stepped; ready_obs() lists the envs that can"));
    }
    if (ABSL_PREDICT_FALSE(slot.last_step == step_count_)) {
      return absl::InvalidArgumentError(
          absl::StrCat(EnvName(env_id), " occurs twice in the list of envs to step"));
    }
    slot.last_step = step_count_;
  }
  const auto acts = [this](int env_id, int player) { return plays(env_id, player); };
  DING_RETURN_IF_ERROR(CheckActions(spec_, env_ids, actions, acts));
  if (ABSL_PREDICT_TRUE(mask_fields_.empty())) return absl::OkStatus();
  return CheckActionMasks(spec_, mask_fields_, env_ids, actions, rows_, acts);
}

absl::StatusOr<const Timesteps*> EnvManagerCore::Step(absl::Span<const int> env_ids,
                                                      const ColumnsView& actions) {
  DING_RETURN_IF_ERROR(CheckStep(env_ids, actions));
  if (!ended_.empty() || !ended_players_.empty()) ForgetEnds();
  reward_sum_ = 0;
  absl::Span<const int> answered;
  DING_RETURN_IF_ERROR(StepEnvs(env_ids, actions, &answered));
  DING_RETURN_IF_ERROR(CheckFinite(answered));
  const size_t count = answered.size();
  stepped_ids_.assign(answered.begin(), answered.end());
  if (count != timesteps_.env_ids.size()) SetRows(count);
  if (ABSL_PREDICT_FALSE(!ended_players_.empty())) DING_RETURN_IF_ERROR(KeepEndedObs());
  if (ABSL_PREDICT_FALSE(!ended_.empty())) {
    DING_RETURN_IF_ERROR(EndEpisodes(stepped_ids_));
    timesteps_.causes = causes_;
    timesteps_.finished = finished_;
    timesteps_.final_obs = blocks_.final.view().Slice(0, static_cast<int64_t>(finished_.size()));
  }
  return &timesteps_;
}

void EnvManagerCore::SetRows(size_t count) {
  timesteps_.env_ids = stepped_ids_;
  timesteps_.reward = absl::MakeConstSpan(reward_).first(count);
  timesteps_.other_rewards =
      absl::MakeConstSpan(other_rewards_).first(count * static_cast<size_t>(spec_.players - 1));
  timesteps_.reward_components =
      absl::MakeConstSpan(reward_components_).first(count * static_cast<size_t>(components_));
  if (blocks_.info.has_value()) {
    timesteps_.info = blocks_.info->view().Slice(0, static_cast<int64_t>(count));
  }
  timesteps_.terminated = terminated().first(count);
  timesteps_.truncated = truncated().first(count);
  timesteps_.abnormal = abnormal().first(count);
}

void EnvManagerCore::ForgetEnds() {
  std::fill(ends_.begin(), ends_.end(), 0);
  ended_.clear();
  finished_.clear();
  causes_.clear();
  ended_players_.clear();
  timesteps_.ended_players = {};
  timesteps_.ended_obs = blocks_.final.view().Slice(0, 0);
  timesteps_.causes = {};
  timesteps_.finished = {};
  timesteps_.final_obs = blocks_.final.view().Slice(0, 0);
}

absl::StatusOr<Image> EnvManagerCore::Render(int env_id) {
  if (closed_) return CheckOpen("Render");
  DING_RETURN_IF_ERROR(Annotate(CheckEnvId(env_id), "Render"));
  const std::string context = absl::StrCat(EnvName(env_id), ": render failed");
  if (asked(env_id)) {
    return absl::FailedPreconditionError(
        absl::StrCat(context, ": it is being stepped or reset and has not answered yet"));
  }
  absl::StatusOr<Image> image = RenderEnv(env_id);
  if (!image.ok()) return Annotate(image.status(), context);
  return image;
}

}  // namespace ding
