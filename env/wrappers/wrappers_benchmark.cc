// Compares wrappers with bare loops that do the same work by hand (...Floor) on the same env, whose own step costs next to
// nothing: one env alone, and for the wrappers of all envs 8 vectors of 64 numbers in a manager of type base.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
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
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/running_normalizer.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "google/protobuf/text_format.h"

namespace ding {
namespace {

constexpr int kSide = 84;
constexpr int kPixels = kSide * kSide;
constexpr int kEpisode = 500;

// Shows a picture of [84, 84, channels] bytes, or a vector of `width` floats, that changes with each step.
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

template <int channels, int width, int actions>
absl::StatusOr<std::unique_ptr<Env>> MakeScreen(const EnvConfig&) {
  return std::make_unique<Screen>(channels, width, actions);
}

DING_REGISTER(EnvRegistry(), "picture", (MakeScreen<1, 0, 4>), "a gray picture");
DING_REGISTER(EnvRegistry(), "colors", (MakeScreen<3, 0, 4>), "a colored picture");
DING_REGISTER(EnvRegistry(), "vector", (MakeScreen<0, 64, 4>), "a vector");
DING_REGISTER(EnvRegistry(), "robot", (MakeScreen<0, 64, 0>), "a vector, real actions");

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
    const absl::Status status = env->Reset({1, {}}, obs.view().row(0));
    DING_CHECK(status.ok()) << status;
  }
  void Step() { Step(ColumnsView(action.view()).row(0)); }
  void Step(const RowView& taken) {
    ClearStepResult(env->spec(), &result);
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
  state.SetLabel("reach=1.2");
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
      to = static_cast<uint8_t>((299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2] + 500) / 1000);
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

// On a picture, because its env costs as much as a cheap one does.
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
  Player player("robot");
  const BatchBuilder scaled = ZeroedRows(player.env->spec().action, 1).value();
  for (auto _ : state) {
    const absl::Span<const float> from = ColumnsView(player.action.view()).column<float>(0);
    const absl::Span<float> to = scaled.view().column<float>(0);
    for (size_t i = 0; i < to.size(); ++i) {
      const double part = (static_cast<double>(from[i]) + 1) / 2;
      to[i] = static_cast<float>(std::clamp(-2 + part * 4, -2.0, 2.0));
    }
    player.Step(ColumnsView(scaled.view()).row(0));
    if (player.over()) player.Reset();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_RescaleActionFloor);

// All envs of a manager at once: 8 vectors of 64.
constexpr int kEnvs = 8;

std::unique_ptr<EnvManager> Launched(const std::string& wrappers) {
  EnvManagerConfig manager;
  manager.set_type("base");
  std::unique_ptr<EnvManager> envs =
      create_envs(Config("vector", wrappers), manager, kEnvs, Clock::Real()).value();
  const absl::Status status = envs->Launch();
  DING_CHECK(status.ok()) << status;
  return envs;
}

template <typename Work>
void RunManager(benchmark::State& state, const std::string& wrappers, const Work& work) {
  const std::unique_ptr<EnvManager> envs = Launched(wrappers);
  std::vector<int64_t> actions(kEnvs, 1);
  std::byte* const column = reinterpret_cast<std::byte*>(actions.data());
  const ColumnsView taken(envs->env_spec().action.get(), &column, 0, kEnvs);
  for (auto _ : state) {
    const ReadyObs ready = envs->ready_obs();
    work(ready.obs, absl::Span<const float>());
    const absl::StatusOr<const Timesteps*> steps = envs->Step(ready.env_ids, taken);
    DING_CHECK(steps.ok()) << steps.status();
    work(ColumnsView(), (*steps)->reward);
  }
  state.SetItemsProcessed(state.iterations() * kEnvs);
}

void BM_NormalizeObservation(benchmark::State& state) {
  RunManager(state, "wrapper { type: 'normalize_observation' }",
             [](const ColumnsView&, absl::Span<const float>) {});
  state.SetLabel("reach=1.2");
}
BENCHMARK(BM_NormalizeObservation);
void BM_NormalizeObservationFloor(benchmark::State& state) {
  RunningNormalizer normalizer(64, 10);
  std::vector<float> rows(kEnvs * 64);
  RunManager(state, "", [&](const ColumnsView& obs, absl::Span<const float>) {
    if (obs.rows() == 0) return;
    normalizer.Update(obs.column<float>(0));
    normalizer.Normalize(obs.column<float>(0), absl::MakeSpan(rows));
    benchmark::DoNotOptimize(rows.data());
  });
}
BENCHMARK(BM_NormalizeObservationFloor);

void BM_NormalizeReward(benchmark::State& state) {
  RunManager(state, "wrapper { type: 'normalize_reward' }",
             [](const ColumnsView&, absl::Span<const float>) {});
  state.SetLabel("reach=1.2");
}
BENCHMARK(BM_NormalizeReward);
void BM_NormalizeRewardFloor(benchmark::State& state) {
  RunningNormalizer statistics(1, 10);
  std::array<float, kEnvs> returns = {};
  std::array<float, kEnvs> scaled = {};
  RunManager(state, "", [&](const ColumnsView&, absl::Span<const float> reward) {
    if (reward.empty()) return;
    for (size_t i = 0; i < kEnvs; ++i) returns[i] = reward[i] + 0.99f * returns[i];
    statistics.Update(returns);
    const double scale = 1 / std::sqrt(statistics.Variance(0) + 1e-8);
    for (size_t i = 0; i < kEnvs; ++i) {
      scaled[i] = std::clamp(static_cast<float>(reward[i] * scale), -10.0f, 10.0f);
    }
    benchmark::DoNotOptimize(scaled.data());
  });
}
BENCHMARK(BM_NormalizeRewardFloor);

}  // namespace
}  // namespace ding
