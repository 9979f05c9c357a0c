#include "ding_worker/collector/testing/fake_env_manager.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"

namespace ding {
namespace {

EnvSpec FakeSpec(int players) {
  EnvSpec spec;
  spec.name = "Fake";
  spec.observation = MakeSpec({Box("obs", {3})}).value();
  spec.action = MakeSpec({Discrete("action", 4)}).value();
  return players == 1 ? spec : GameSpec(spec, players).value();
}

}  // namespace

std::function<FakeEnvManager::Episode(int, int64_t)> FakeEnvManager::RandomScript(
    uint64_t seed, int64_t max_length, double abnormal) {
  return [=](int env_id, int64_t episode) {
    Rng rng(seed, "fake/episode", static_cast<uint64_t>(env_id * 1000000 + episode));
    Episode script;
    script.length = 1 + static_cast<int64_t>(rng.UniformInt(static_cast<uint64_t>(max_length)));
    script.end = rng.Uniform() < 0.5 ? End::kTerminated : End::kTruncated;
    if (rng.Uniform() < abnormal) script.end = End::kAbnormal;
    return script;
  };
}

FakeEnvManager::FakeEnvManager(Options options)
    : options_(std::move(options)),
      spec_(FakeSpec(options_.players)),
      slots_(options_.env_num),
      rng_(options_.seed, "fake/manager"),
      ready_rows_(BatchBuilder::Create(spec_.observation, options_.env_num).value()),
      final_rows_(BatchBuilder::Create(spec_.observation, options_.env_num).value()),
      ended_rows_(
          BatchBuilder::Create(spec_.observation, options_.env_num * options_.players).value()) {}

absl::Status FakeEnvManager::Seed(absl::Span<const uint64_t> /*seeds*/, bool /*dynamic*/) {
  return absl::OkStatus();
}

absl::Status FakeEnvManager::Launch() {
  ++launches_;
  closed_ = false;
  return Reset();
}

absl::Status FakeEnvManager::Reset() {
  for (int id = 0; id < env_num(); ++id) {
    slots_[id].episodes_done = 0;
    BeginEpisode(id);
  }
  return absl::OkStatus();
}

absl::Status FakeEnvManager::Reset(absl::Span<const EnvReset> envs) {
  for (const EnvReset& reset : envs) BeginEpisode(reset.env_id);
  return absl::OkStatus();
}

void FakeEnvManager::BeginEpisode(int env_id) {
  Slot& slot = slots_[env_id];
  ++slot.episode;
  slot.step = 0;
  slot.episode_return = 0;
  slot.other_returns.assign(static_cast<size_t>(options_.players - 1), 0);
  slot.asked = false;
}

FakeEnvManager::Obs FakeEnvManager::ObsOf(int env_id) const {
  const Slot& slot = slots_[env_id];
  return {static_cast<float>(env_id), static_cast<float>(slot.episode),
          static_cast<float>(slot.step)};
}

void FakeEnvManager::ShowObs(const Obs& obs, const BatchBuilder& rows, size_t row) const {
  for (int player = 0; player < options_.players; ++player) {
    float* const to = rows.column<float>(player).data() + 3 * row;
    std::copy(obs.begin(), obs.end(), to);
    to[0] += static_cast<float>(1000 * player);
  }
}

bool FakeEnvManager::IsDone(int env_id) const {
  return options_.episode_num > 0 && slots_[env_id].episodes_done >= options_.episode_num;
}

ReadyObs FakeEnvManager::ready_obs() {
  ready_ids_.clear();
  std::vector<int> able;
  for (int id = 0; id < env_num(); ++id) {
    if (!slots_[id].asked && !IsDone(id)) able.push_back(id);
  }
  for (const int id : able) {
    // An env within an episode is always ready, because a collector may need its observation.
    const bool must = slots_[id].step > 0 || (ready_ids_.empty() && id == able.back());
    if (options_.subsets && !must && rng_.Uniform() < 0.3) continue;
    ShowObs(ObsOf(id), ready_rows_, ready_ids_.size());
    ready_ids_.push_back(id);
  }
  return {ready_ids_, ready_rows_.view().Slice(0, static_cast<int64_t>(ready_ids_.size()))};
}

absl::StatusOr<const Timesteps*> FakeEnvManager::Step(absl::Span<const int> env_ids,
                                                      const ColumnsView& actions) {
  if (!step_error_.ok()) return std::exchange(step_error_, absl::OkStatus());
  DING_RETURN_IF_ERROR(CheckActions(spec_, env_ids, actions));
  ++calls_;
  for (size_t i = 0; i < env_ids.size(); ++i) {
    Slot& slot = slots_[env_ids[i]];
    slot.asked = true;
    slot.event = Event();
    slot.event.asked = asked_++;
    slot.event.env_id = env_ids[i];
    slot.event.obs = ObsOf(env_ids[i]);
    slot.event.action = actions.column<int64_t>(0)[i];
    for (int player = 1; player < options_.players; ++player) {
      slot.event.other_actions.push_back(actions.column<int64_t>(player)[i]);
    }
    for (int player = 0; player < options_.players; ++player) {
      slot.event.plays.push_back(plays(env_ids[i], player));
    }
  }
  ids_.clear();
  for (int id = 0; id < env_num(); ++id) {
    if (slots_[id].asked && (!options_.late || rng_.Uniform() < 0.6)) ids_.push_back(id);
  }
  for (int id = 0; id < env_num() && ids_.empty(); ++id) {
    if (slots_[id].asked) ids_.push_back(id);
  }
  reward_.clear();
  other_rewards_.clear();
  terminated_.clear();
  truncated_.clear();
  abnormal_.clear();
  finished_.clear();
  ended_players_.clear();
  for (const int id : ids_) Answer(id);
  timesteps_.ended_players = ended_players_;
  timesteps_.ended_obs = ended_rows_.view().Slice(0, static_cast<int64_t>(ended_players_.size()));
  timesteps_.env_ids = ids_;
  timesteps_.reward = reward_;
  timesteps_.other_rewards = other_rewards_;
  timesteps_.terminated = terminated_;
  timesteps_.truncated = truncated_;
  timesteps_.abnormal = abnormal_;
  timesteps_.finished = finished_;
  timesteps_.final_obs = final_rows_.view().Slice(0, static_cast<int64_t>(finished_.size()));
  return &timesteps_;
}

void FakeEnvManager::Answer(int env_id) {
  Slot& slot = slots_[env_id];
  Event& event = slot.event;
  slot.asked = false;
  event.call = calls_;
  const auto number = static_cast<float>(100 * slot.episode + slot.step);
  if (event.plays[0]) event.reward = number;
  for (int player = 1; player < options_.players; ++player) {
    const float reward = event.plays[player] ? static_cast<float>(player + 1) * number : 0;
    other_rewards_.push_back(reward);
    slot.other_returns[player - 1] += reward;
  }
  ++slot.step;
  slot.episode_return += event.reward;
  event.next_obs = ObsOf(env_id);
  const Episode script = ScriptOf(env_id);
  const bool is_void = slot.step >= script.length && script.end == End::kAbnormal;
  for (size_t player = 0; !is_void && player < script.player_ends.size(); ++player) {
    const auto& [step, end] = script.player_ends[player];
    if (step != slot.step) continue;
    ShowObs(event.next_obs, ended_rows_, ended_players_.size());
    ended_players_.push_back(
        {static_cast<int>(reward_.size()), static_cast<int>(player), end == End::kTerminated});
  }
  if (slot.step >= script.length) {
    event.terminated = script.end == End::kTerminated;
    event.truncated = script.end == End::kTruncated;
    event.abnormal = script.end == End::kAbnormal;
    if (!event.abnormal) {
      ShowObs(event.next_obs, final_rows_, finished_.size());
      FinishedEpisode finished;
      finished.row = static_cast<int>(reward_.size());
      finished.episode_return = slot.episode_return;
      finished.other_returns = slot.other_returns;
      finished.length = slot.step;
      if (options_.info) finished.info = options_.info(env_id, slot.episode);
      finished_.push_back(std::move(finished));
      ++slot.episodes_done;
    }
    BeginEpisode(env_id);
  }
  reward_.push_back(event.reward);
  terminated_.push_back(event.terminated);
  truncated_.push_back(event.truncated);
  abnormal_.push_back(event.abnormal);
  events_.push_back(event);
}

FakeEnvManager::Episode FakeEnvManager::ScriptOf(int env_id) const {
  return options_.script ? options_.script(env_id, slots_[env_id].episode)
                         : Episode{3, End::kTerminated, {}};
}

bool FakeEnvManager::plays(int env_id, int player) const {
  const Episode script = ScriptOf(env_id);
  const auto i = static_cast<size_t>(player);
  if (i >= script.player_ends.size() || script.player_ends[i].first == 0) return true;
  return slots_[env_id].step < script.player_ends[i].first;
}

EnvState FakeEnvManager::env_state(int env_id) const {
  if (closed_) return EnvState::kVoid;
  return IsDone(env_id) ? EnvState::kDone : EnvState::kRun;
}

bool FakeEnvManager::done() const {
  for (int id = 0; id < env_num(); ++id) {
    if (!IsDone(id)) return false;
  }
  return true;
}

absl::StatusOr<Image> FakeEnvManager::Render(int env_id) {
  if (!options_.can_render) return absl::UnimplementedError("nothing to see");
  Image picture;
  picture.width = 2;
  picture.height = 1;
  for (int i = 0; i < 2; ++i) {
    for (const float value : ObsOf(env_id)) picture.rgb.push_back(static_cast<uint8_t>(value));
  }
  return picture;
}

absl::Status FakeEnvManager::SaveState(StateWriter* writer) const {
  std::vector<int64_t> ints;
  std::vector<double> returns;
  for (const Slot& slot : slots_) {
    ints.insert(ints.end(), {slot.episode, slot.step, slot.episodes_done});
    returns.push_back(slot.episode_return);
  }
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("slots", ints));
  for (const Slot& slot : slots_) {
    returns.insert(returns.end(), slot.other_returns.begin(), slot.other_returns.end());
  }
  DING_RETURN_IF_ERROR(writer->WriteSpan<double>("returns", returns));
  return writer->WriteRng("rng", rng_);
}

absl::Status FakeEnvManager::LoadState(StateReader* reader, std::vector<int>* restarted) {
  restarted->clear();
  std::vector<int64_t> ints(3 * slots_.size());
  const auto others = static_cast<size_t>(options_.players - 1);
  std::vector<double> returns(slots_.size() * (1 + others));
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("slots", absl::MakeSpan(ints)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<double>("returns", absl::MakeSpan(returns)));
  DING_RETURN_IF_ERROR(reader->ReadRng("rng", &rng_));
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].episode = ints[3 * i];
    slots_[i].step = ints[3 * i + 1];
    slots_[i].episodes_done = ints[3 * i + 2];
    slots_[i].episode_return = returns[i];
    const auto of_others = returns.begin() + static_cast<ptrdiff_t>(slots_.size() + i * others);
    slots_[i].other_returns.assign(of_others, of_others + static_cast<ptrdiff_t>(others));
  }
  closed_ = false;
  return absl::OkStatus();
}

FakeEnvManager::Options WithScript(int env_num,
                                   std::function<FakeEnvManager::Episode(int, int64_t)> script) {
  FakeEnvManager::Options options;
  options.env_num = env_num;
  options.script = std::move(script);
  return options;
}

FakeEnvManager::Options RandomEnvs(int env_num, uint64_t seed, int64_t max_length,
                                   double abnormal) {
  FakeEnvManager::Options options =
      WithScript(env_num, FakeEnvManager::RandomScript(seed, max_length, abnormal));
  options.seed = seed;
  return options;
}

}  // namespace ding
