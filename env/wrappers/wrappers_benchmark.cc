// Compares wrappers with bare loops that do the same work by hand (...Floor) on the same env, whose
// own step costs next to nothing: one env alone, and for the wrappers of all envs 8 vectors of 64
// numbers in a manager of type base.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/running_normalizer.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/metrics/video.h"
#include "google/protobuf/text_format.h"

namespace ding {
namespace {

constexpr int kSide = 84;
constexpr int kPixels = kSide * kSide;
constexpr int kEpisode = 500;

// Shows a picture of [84, 84, channels] bytes, or a vector of `width` floats, that changes with
// each step.
class Screen : public Env {
 public:
  Screen(int channels, int width, int actions) {
    FieldSpec obs;
    obs.name = "obs";
    obs.dtype = channels > 0 ? DType::kUint8 : DType::kFloat32;
    obs.shape = channels == 0   ? Shape{width}
                : channels == 1 ? Shape{1, kSide, kSide}
                                : Shape{kSide, kSide, channels};
    bytes_ = obs.row_bytes();
    spec_.name = "Screen";
    spec_.observation = MakeSpec({std::move(obs)}).value();
    spec_.action =
        MakeSpec({actions > 0 ? Discrete("action", actions) : Box("action", {6}, {-2}, {2})})
            .value();
  }
  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart&, const RowRef& obs) override {
    steps_ = 0;
    Show(obs);
    return absl::OkStatus();
  }
  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    ++steps_;
    Show(obs);
    result->reward = static_cast<float>(action.raw_field(0)[0]);
    result->terminated = steps_ == kEpisode;
    return absl::OkStatus();
  }
  absl::StatusOr<Image> Render() override {
    const auto shade = static_cast<uint8_t>(steps_ & 0xFF);
    return Image{kSide, kSide, std::vector<uint8_t>(3 * kPixels, shade)};
  }

 private:
  void Show(const RowRef& obs) const {
    if (spec_.observation->dtype(0) == DType::kUint8) {
      std::memset(obs.raw_field(0), steps_ & 0xFF, static_cast<size_t>(bytes_));
      return;
    }
    for (float& value : obs.field<float>(0)) value = static_cast<float>(steps_);
  }

  EnvSpec spec_;
  int64_t bytes_ = 0;
  int steps_ = 0;
};

// Shows a gray picture, one of kKinds categories, and a number of lives, of which one is lost each
// 100 steps.
constexpr int kKinds = 16;
class Room : public Env {
 public:
  enum Field { kImage, kKind, kLives };

  Room() {
    FieldSpec image;
    image.name = "obs/image";
    image.dtype = DType::kUint8;
    image.shape = {1, kSide, kSide};
    spec_.name = "Room";
    spec_.observation = MakeSpec({std::move(image), Discrete("obs/kind", kKinds),
                                  Scalar("obs/lives", DType::kInt32)})
                            .value();
    spec_.action = MakeSpec({Discrete("action", 4)}).value();
  }
  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart&, const RowRef& obs) override {
    steps_ = 0;
    Show(obs);
    return absl::OkStatus();
  }
  absl::Status Step(const RowView&, const RowRef& obs, StepResult* result) override {
    ++steps_;
    Show(obs);
    result->terminated = steps_ == kEpisode;
    return absl::OkStatus();
  }

 private:
  void Show(const RowRef& obs) const {
    std::memset(obs.raw_field(kImage), steps_ & 0xFF, kPixels);
    obs.field<int64_t>(kKind)[0] = steps_ % kKinds;
    obs.field<int32_t>(kLives)[0] = 5 - steps_ / 100;
  }

  EnvSpec spec_;
  int steps_ = 0;
};

template <int channels, int width, int actions>
absl::StatusOr<std::unique_ptr<Env>> MakeScreen(const EnvConfig&) {
  return std::make_unique<Screen>(channels, width, actions);
}

DING_REGISTER(EnvRegistry(), "picture", (MakeScreen<1, 0, 4>), "a gray picture");
DING_REGISTER(EnvRegistry(), "colors", (MakeScreen<3, 0, 4>), "a colored picture");
DING_REGISTER(EnvRegistry(), "vector", (MakeScreen<0, 64, 4>), "a vector");
DING_REGISTER(EnvRegistry(), "robot", (MakeScreen<0, 64, 0>), "a vector, real actions");
DING_REGISTER(
    EnvRegistry(), "room", [](const EnvConfig&) { return std::make_unique<Room>(); },
    "a gray picture, a category and lives");

EnvConfig Config(absl::string_view env, absl::string_view wrappers) {
  EnvConfig config;
  DING_CHECK(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("type: '", env, "' ", wrappers), &config));
  return config;
}

std::string Wrapper(absl::string_view type, absl::string_view message, absl::string_view params) {
  return absl::StrCat("wrapper { type: '", type, "' params { [type.googleapis.com/ding.", message,
                      "] { ", params, " } } }");
}

// An env and the rows for its steps.
struct Player {
  explicit Player(absl::string_view env, absl::string_view wrappers = "")
      : env(create_env(Config(env, wrappers)).value()),
        obs(ZeroedRows(this->env->spec().observation, 1).value()),
        action(ZeroedRows(this->env->spec().action, 1).value()) {
    Reset();
  }
  void Reset() {
    ClearStepResult(env->spec(), &result);
    const absl::Status status = env->Reset({1, {}}, obs.view().row(0));
    DING_CHECK(status.ok()) << status;
  }
  void Step() {
    ClearStepResult(env->spec(), &result);
    const RowView taken = ColumnsView(action.view()).row(0);
    const absl::Status status = env->Step(taken, obs.view().row(0), &result);
    DING_CHECK(status.ok()) << status;
    benchmark::DoNotOptimize(obs.view().raw_column(0));
  }
  bool over() const { return result.terminated || result.truncated; }

  std::unique_ptr<Env> env;
  BatchBuilder obs;
  BatchBuilder action;
  StepResult result;
};

void RunWrapped(benchmark::State& state, absl::string_view env, const std::string& wrappers) {
  Player player(env, wrappers);
  for (auto _ : state) {
    player.Step();
    if (player.over()) player.Reset();
  }
  state.SetItemsProcessed(state.iterations());
  state.SetLabel("aim=0.83");
}

// Calls `work(&player)` after each step of the bare env.
template <typename Work>
void RunByHand(benchmark::State& state, absl::string_view env, const Work& work) {
  Player player(env);
  for (auto _ : state) {
    player.Step();
    work(&player);
    if (player.over()) player.Reset();
  }
  state.SetItemsProcessed(state.iterations());
}

// Calls `change(given, taken)` before each step of the bare env, which makes the action that is
// taken of the `n` elements of the given one.
template <typename Given, typename Taken, size_t n, typename Change>
void RunWithActions(benchmark::State& state, absl::string_view env, const Change& change) {
  Player player(env);
  std::array<Given, n> given = {};
  for (auto _ : state) {
    benchmark::DoNotOptimize(given.data());
    change(given, player.action.view().column<Taken>(0));
    player.Step();
    if (player.over()) player.Reset();
  }
  state.SetItemsProcessed(state.iterations());
}

void BM_FrameStack(benchmark::State& state) {
  RunWrapped(state, "picture", "wrapper { type: 'frame_stack' }");
}
BENCHMARK(BM_FrameStack);
void BM_FrameStackFloor(benchmark::State& state) {
  std::vector<uint8_t> stack(4 * kPixels);
  RunByHand(state, "picture", [&](Player* player) {
    std::memmove(stack.data(), stack.data() + kPixels, 3 * kPixels);
    std::memcpy(stack.data() + 3 * kPixels, player->obs.view().raw_column(0), kPixels);
    benchmark::DoNotOptimize(stack.data());
  });
}
BENCHMARK(BM_FrameStackFloor);

void BM_Grayscale(benchmark::State& state) {
  RunWrapped(state, "colors", "wrapper { type: 'grayscale' }");
}
BENCHMARK(BM_Grayscale);
void BM_GrayscaleFloor(benchmark::State& state) {
  std::vector<uint8_t> gray(kPixels);
  RunByHand(state, "colors", [&](Player* player) {
    const auto* pixel = reinterpret_cast<const uint8_t*>(player->obs.view().raw_column(0));
    for (uint8_t& to : gray) {
      to = static_cast<uint8_t>(
          (19595u * pixel[0] + 38470u * pixel[1] + 7471u * pixel[2] + 32768u) >> 16);
      pixel += 3;
    }
    benchmark::DoNotOptimize(gray.data());
  });
}
BENCHMARK(BM_GrayscaleFloor);

void BM_Crop(benchmark::State& state) {
  RunWrapped(state, "picture",
             Wrapper("crop", "CropConfig", "left: 8 top: 8 width: 64 height: 64"));
}
BENCHMARK(BM_Crop);
void BM_CropFloor(benchmark::State& state) {
  size_t side = 64;  // as a config says it: not known to the compiler
  benchmark::DoNotOptimize(side);
  std::vector<std::byte> part(side * side);
  RunByHand(state, "picture", [&](Player* player) {
    const std::byte* const from = player->obs.view().raw_column(0);
    for (size_t y = 0; y < side; ++y) {
      std::memcpy(part.data() + side * y, from + (y + 8) * kSide + 8, side);
    }
    benchmark::DoNotOptimize(part.data());
  });
}
BENCHMARK(BM_CropFloor);

// To 36 x 36, of which each covers 2.33 x 2.33 pixels.
void BM_Resize(benchmark::State& state) {
  RunWrapped(state, "picture", Wrapper("resize", "ResizeConfig", "width: 36 height: 36"));
}
BENCHMARK(BM_Resize);
void BM_ResizeFloor(benchmark::State& state) {
  constexpr int kTo = 36;
  constexpr float kSize = static_cast<float>(kSide) / kTo;
  struct Cover {
    int begin;
    std::vector<float> parts;
  };
  std::vector<Cover> covers;
  for (int i = 0; i < kTo; ++i) {
    const float low = static_cast<float>(i) * kSize;
    Cover cover{static_cast<int>(low), {}};
    for (int k = cover.begin; static_cast<float>(k) < low + kSize - 1e-4f; ++k) {
      const auto pixel = static_cast<float>(k);
      cover.parts.push_back((std::min(low + kSize, pixel + 1) - std::max(low, pixel)) / kSize);
    }
    covers.push_back(std::move(cover));
  }
  std::vector<float> narrow(kSide * kTo);
  std::vector<uint8_t> small(kTo * kTo);
  RunByHand(state, "picture", [&](Player* player) {
    const auto* const from = reinterpret_cast<const uint8_t*>(player->obs.view().raw_column(0));
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kTo; ++x) {
        const Cover& cover = covers[static_cast<size_t>(x)];
        const uint8_t* at = from + y * kSide + cover.begin;
        float sum = 0;
        for (const float part : cover.parts) sum += part * static_cast<float>(*at++);
        narrow[static_cast<size_t>(y * kTo + x)] = sum;
      }
    }
    for (int y = 0; y < kTo; ++y) {
      const Cover& cover = covers[static_cast<size_t>(y)];
      for (int x = 0; x < kTo; ++x) {
        const float* at = narrow.data() + cover.begin * kTo + x;
        float sum = 0;
        for (const float part : cover.parts) {
          sum += part * *at;
          at += kTo;
        }
        small[static_cast<size_t>(y * kTo + x)] = static_cast<uint8_t>(sum + 0.5f);
      }
    }
    benchmark::DoNotOptimize(small.data());
  });
}
BENCHMARK(BM_ResizeFloor);

void BM_ChannelsFirst(benchmark::State& state) {
  RunWrapped(state, "colors", "wrapper { type: 'channels_first' }");
}
BENCHMARK(BM_ChannelsFirst);
void BM_ChannelsFirstFloor(benchmark::State& state) {
  std::vector<uint8_t> planes(3 * kPixels);
  RunByHand(state, "colors", [&](Player* player) {
    const auto* const from = reinterpret_cast<const uint8_t*>(player->obs.view().raw_column(0));
    for (int channel = 0; channel < 3; ++channel) {
      for (int i = 0; i < kPixels; ++i) {
        planes[static_cast<size_t>(channel * kPixels + i)] = from[3 * i + channel];
      }
    }
    benchmark::DoNotOptimize(planes.data());
  });
}
BENCHMARK(BM_ChannelsFirstFloor);

void BM_Flatten(benchmark::State& state) {
  RunWrapped(state, "picture", "wrapper { type: 'flatten' }");
}
BENCHMARK(BM_Flatten);
void BM_FlattenFloor(benchmark::State& state) {
  std::vector<float> flat(kPixels);
  RunByHand(state, "picture", [&](Player* player) {
    const absl::Span<const uint8_t> from = ColumnsView(player->obs.view()).column<uint8_t>(0);
    std::copy(from.begin(), from.end(), flat.begin());
    benchmark::DoNotOptimize(flat.data());
  });
}
BENCHMARK(BM_FlattenFloor);

// The other fields are copied, too, as the observation with its new field is one row.
void BM_OneHot(benchmark::State& state) {
  RunWrapped(state, "room", Wrapper("one_hot", "OneHotConfig", "field: 'obs/kind'"));
}
BENCHMARK(BM_OneHot);
void BM_OneHotFloor(benchmark::State& state) {
  std::vector<uint8_t> image(kPixels);
  std::vector<float> kind(kKinds);
  int32_t lives = 0;
  RunByHand(state, "room", [&](Player* player) {
    const RowView obs = ColumnsView(player->obs.view()).row(0);
    std::memcpy(image.data(), obs.raw_field(Room::kImage), kPixels);
    lives = obs.scalar<int32_t>(Room::kLives);
    std::fill(kind.begin(), kind.end(), 0.0f);
    kind[static_cast<size_t>(obs.scalar<int64_t>(Room::kKind))] = 1;
    benchmark::DoNotOptimize(image.data());
    benchmark::DoNotOptimize(kind.data());
    benchmark::DoNotOptimize(lives);
  });
}
BENCHMARK(BM_OneHotFloor);

void BM_MaskFields(benchmark::State& state) {
  RunWrapped(state, "room", Wrapper("mask_fields", "MaskFieldsConfig", "remove: 'obs/lives'"));
}
BENCHMARK(BM_MaskFields);
void BM_MaskFieldsFloor(benchmark::State& state) {
  std::vector<uint8_t> image(kPixels);
  int64_t kind = 0;
  RunByHand(state, "room", [&](Player* player) {
    const RowView obs = ColumnsView(player->obs.view()).row(0);
    std::memcpy(image.data(), obs.raw_field(Room::kImage), kPixels);
    kind = obs.scalar<int64_t>(Room::kKind);
    benchmark::DoNotOptimize(image.data());
    benchmark::DoNotOptimize(kind);
  });
}
BENCHMARK(BM_MaskFieldsFloor);

// On a picture, as the following ones, because its env costs as much as a cheap one does.
void BM_TimeLimit(benchmark::State& state) {
  RunWrapped(state, "picture", Wrapper("time_limit", "TimeLimitConfig", "max_steps: 400"));
}
BENCHMARK(BM_TimeLimit);
void BM_TimeLimitFloor(benchmark::State& state) {
  int steps = 0;
  RunByHand(state, "picture", [&](Player* player) {
    if (++steps >= 400 && !player->result.terminated) player->result.truncated = true;
    if (player->over()) steps = 0;
    benchmark::DoNotOptimize(steps);
  });
}
BENCHMARK(BM_TimeLimitFloor);

void BM_StickyActions(benchmark::State& state) {
  RunWrapped(state, "picture", "wrapper { type: 'sticky_actions' }");
}
BENCHMARK(BM_StickyActions);
void BM_StickyActionsFloor(benchmark::State& state) {
  std::mt19937_64 random(1);
  RunWithActions<int64_t, int64_t, 1>(
      state, "picture", [&](const std::array<int64_t, 1>& given, absl::Span<int64_t> taken) {
        if (static_cast<double>(random() >> 11) * 0x1p-53 >= 0.25) taken[0] = given[0];
      });
}
BENCHMARK(BM_StickyActionsFloor);

// Up to 30 steps of the picture begin each episode.
void BM_NoOpStarts(benchmark::State& state) {
  RunWrapped(state, "picture", "wrapper { type: 'no_op_starts' }");
}
BENCHMARK(BM_NoOpStarts);
void BM_NoOpStartsFloor(benchmark::State& state) {
  std::mt19937_64 random(1);
  RunByHand(state, "picture", [&](Player* player) {
    if (!player->over()) return;
    player->Reset();
    const uint64_t count = random() % 31;
    for (uint64_t i = 0; i < count; ++i) player->Step();
  });
}
BENCHMARK(BM_NoOpStartsFloor);

// Five episodes, of which four begin by a step, are one of the env.
void BM_EpisodicLife(benchmark::State& state) {
  RunWrapped(state, "room", Wrapper("episodic_life", "EpisodicLifeConfig", "field: 'obs/lives'"));
}
BENCHMARK(BM_EpisodicLife);
void BM_EpisodicLifeFloor(benchmark::State& state) {
  int32_t last = 0;
  RunByHand(state, "room", [&](Player* player) {
    const RowView obs = ColumnsView(player->obs.view()).row(0);
    const bool lost = !player->over() && obs.scalar<int32_t>(Room::kLives) < last;
    if (lost) player->Step();
    last = obs.scalar<int32_t>(Room::kLives);
    benchmark::DoNotOptimize(last);
  });
}
BENCHMARK(BM_EpisodicLifeFloor);

// Four steps of the picture, whose rewards are summed.
void BM_ActionRepeat(benchmark::State& state) {
  RunWrapped(state, "picture", "wrapper { type: 'action_repeat' }");
}
BENCHMARK(BM_ActionRepeat);
void BM_ActionRepeatFloor(benchmark::State& state) {
  float sum = 0;
  RunByHand(state, "picture", [&](Player* player) {
    sum = player->result.reward;
    for (int i = 1; i < 4 && !player->over(); ++i) {
      player->Step();
      sum += player->result.reward;
    }
    benchmark::DoNotOptimize(sum);
  });
}
BENCHMARK(BM_ActionRepeatFloor);

void BM_RewardScale(benchmark::State& state) {
  RunWrapped(state, "picture", Wrapper("reward_scale", "RewardScaleConfig", "scale: 0.1"));
}
BENCHMARK(BM_RewardScale);
void BM_RewardScaleFloor(benchmark::State& state) {
  double sum = 0;
  double scale = 0.1;  // as a config says it: not known to the compiler
  benchmark::DoNotOptimize(scale);
  RunByHand(state, "picture", [&](Player* player) {
    sum += player->result.reward;
    player->result.reward = static_cast<float>(scale * player->result.reward);
    benchmark::DoNotOptimize(sum);
  });
}
BENCHMARK(BM_RewardScaleFloor);

void BM_RewardClip(benchmark::State& state) {
  RunWrapped(state, "picture", "wrapper { type: 'reward_clip' }");
}
BENCHMARK(BM_RewardClip);
void BM_RewardClipFloor(benchmark::State& state) {
  double sum = 0;
  RunByHand(state, "picture", [&](Player* player) {
    sum += player->result.reward;
    player->result.reward = std::clamp(player->result.reward, -1.0f, 1.0f);
    benchmark::DoNotOptimize(sum);
  });
}
BENCHMARK(BM_RewardClipFloor);

void BM_RescaleAction(benchmark::State& state) {
  RunWrapped(state, "robot", "wrapper { type: 'rescale_action' }");
}
BENCHMARK(BM_RescaleAction);
void BM_RescaleActionFloor(benchmark::State& state) {
  RunWithActions<float, float, 6>(
      state, "robot", [](const std::array<float, 6>& given, absl::Span<float> taken) {
        for (size_t i = 0; i < taken.size(); ++i) {
          const double part = (static_cast<double>(given[i]) + 1) / 2;
          taken[i] = static_cast<float>(std::clamp(-2 + part * 4, -2.0, 2.0));
        }
      });
}
BENCHMARK(BM_RescaleActionFloor);

void BM_ClipAction(benchmark::State& state) {
  RunWrapped(state, "robot", "wrapper { type: 'clip_action' }");
}
BENCHMARK(BM_ClipAction);
void BM_ClipActionFloor(benchmark::State& state) {
  RunWithActions<float, float, 6>(state, "robot",
                                  [](const std::array<float, 6>& given, absl::Span<float> taken) {
                                    for (size_t i = 0; i < taken.size(); ++i)
                                      taken[i] = std::clamp(given[i], -2.0f, 2.0f);
                                  });
}
BENCHMARK(BM_ClipActionFloor);

void BM_DiscretizeAction(benchmark::State& state) {
  RunWrapped(state, "robot", "wrapper { type: 'discretize_action' }");
}
BENCHMARK(BM_DiscretizeAction);
void BM_DiscretizeActionFloor(benchmark::State& state) {
  float last_bin = 10;  // as a config says it: not known to the compiler
  benchmark::DoNotOptimize(last_bin);
  RunWithActions<int64_t, float, 6>(
      state, "robot", [&](const std::array<int64_t, 6>& given, absl::Span<float> taken) {
        for (size_t i = 0; i < taken.size(); ++i) {
          taken[i] = std::min(-2 + static_cast<float>(given[i]) / last_bin * 4, 2.0f);
        }
      });
}
BENCHMARK(BM_DiscretizeActionFloor);

// All envs of a manager at once: 8 vectors of 64.
constexpr int kEnvs = 8;

std::unique_ptr<EnvManager> Launched(const std::string& wrappers, const EnvsUse& use = {}) {
  EnvManagerConfig manager;
  manager.set_type("base");
  std::unique_ptr<EnvManager> envs =
      create_envs(Config("vector", wrappers), manager, kEnvs, Clock::Real(), use).value();
  const absl::Status status = envs->Launch();
  DING_CHECK(status.ok()) << status;
  return envs;
}

// Calls `work` with the observations before each step, and with what came of the step.
template <typename Work>
void RunManager(benchmark::State& state, EnvManager* envs, const Work& work) {
  std::vector<int64_t> actions(kEnvs, 1);
  std::byte* const column = reinterpret_cast<std::byte*>(actions.data());
  const ColumnsView taken(envs->env_spec().action.get(), &column, 0, kEnvs);
  for (auto _ : state) {
    const ReadyObs ready = envs->ready_obs();
    work(ready.obs, nullptr);
    const absl::StatusOr<const Timesteps*> steps = envs->Step(ready.env_ids, taken);
    DING_CHECK(steps.ok()) << steps.status();
    work(ColumnsView(), *steps);
  }
  state.SetItemsProcessed(state.iterations() * kEnvs);
}

void RunWrappedManager(benchmark::State& state, const std::string& wrappers,
                       const EnvsUse& use = {}) {
  RunManager(state, Launched(wrappers, use).get(), [](const ColumnsView&, const Timesteps*) {});
  state.SetLabel("aim=0.83");
}

void BM_NormalizeObservation(benchmark::State& state) {
  RunWrappedManager(state, "wrapper { type: 'normalize_observation' }");
}
BENCHMARK(BM_NormalizeObservation);
void BM_NormalizeObservationFloor(benchmark::State& state) {
  RunningNormalizer normalizer(64, 10);
  std::vector<float> rows(kEnvs * 64);
  RunManager(state, Launched("").get(), [&](const ColumnsView& obs, const Timesteps* steps) {
    if (steps != nullptr) return;
    normalizer.Update(obs.column<float>(0));
    normalizer.Normalize(obs.column<float>(0), absl::MakeSpan(rows));
    benchmark::DoNotOptimize(rows.data());
  });
}
BENCHMARK(BM_NormalizeObservationFloor);

void BM_NormalizeReward(benchmark::State& state) {
  RunWrappedManager(state, "wrapper { type: 'normalize_reward' }");
}
BENCHMARK(BM_NormalizeReward);
void BM_NormalizeRewardFloor(benchmark::State& state) {
  RunningNormalizer statistics(1, 10);
  std::array<float, kEnvs> returns = {};
  std::array<float, kEnvs> scaled = {};
  RunManager(state, Launched("").get(), [&](const ColumnsView&, const Timesteps* steps) {
    if (steps == nullptr) return;
    for (size_t i = 0; i < kEnvs; ++i) returns[i] = steps->reward[i] + 0.99f * returns[i];
    statistics.Update(returns);
    const double scale = 1 / std::sqrt(statistics.Variance(0) + 1e-8);
    for (size_t i = 0; i < kEnvs; ++i) {
      scaled[i] = std::clamp(static_cast<float>(steps->reward[i] * scale), -10.0f, 10.0f);
    }
    benchmark::DoNotOptimize(scaled.data());
  });
}
BENCHMARK(BM_NormalizeRewardFloor);

// A folder that is removed in the end.
class VideoFolder {
 public:
  VideoFolder() { DING_CHECK(mkdtemp(path_.data()) != nullptr) << path_; }
  VideoFolder(const VideoFolder&) = delete;
  VideoFolder& operator=(const VideoFolder&) = delete;
  ~VideoFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "wrappers_XXXXXX").string();
};

// Each episode of env 0, so that all steps cost the same. Most of the time goes into the video,
// which is encoded by the same code in both.
void BM_RecordVideo(benchmark::State& state) {
  const VideoFolder folder;
  RunWrappedManager(state, Wrapper("record_video", "RecordVideoConfig", "every: 1"),
                    {/*evaluates=*/false, folder.path()});
}
BENCHMARK(BM_RecordVideo);
void BM_RecordVideoFloor(benchmark::State& state) {
  const VideoFolder folder;
  const VideoEncoderFactory make_encoder = VideoFormatRegistry().Find("gif").value();
  const std::unique_ptr<EnvManager> envs = Launched("");
  std::unique_ptr<VideoEncoder> video = make_encoder(/*frames_per_second=*/50);
  int64_t episode = 0;
  const auto film = [&] {
    const absl::Status status = video->AddFrame(envs->Render(0).value());
    DING_CHECK(status.ok()) << status;
  };
  envs->set_on_episode_end([&](int env_id) {
    if (env_id == 0) film();
  });
  film();
  RunManager(state, envs.get(), [&](const ColumnsView&, const Timesteps* steps) {
    if (steps == nullptr) return;
    const bool over = steps->terminated[0] != 0 || steps->truncated[0] != 0;
    if (over) {
      const std::string bytes = video->Finish().value();
      const std::string path = absl::StrCat(folder.path(), "/", episode++, ".gif");
      std::FILE* const file = std::fopen((path + "_").c_str(), "wb");
      DING_CHECK(file != nullptr) << path;
      DING_CHECK(std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size()) << path;
      DING_CHECK(std::fflush(file) == 0 && fsync(fileno(file)) == 0) << path;
      DING_CHECK(std::fclose(file) == 0 && std::rename((path + "_").c_str(), path.c_str()) == 0);
      video = make_encoder(/*frames_per_second=*/50);
    }
    film();
  });
}
BENCHMARK(BM_RecordVideoFloor);

}  // namespace
}  // namespace ding
