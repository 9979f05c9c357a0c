#include "ding_worker/env/mujoco/bare_half_cheetahs.h"

#include <algorithm>

#include "ding_worker/env/mujoco/models.h"

namespace ding {
namespace {

constexpr int64_t kMaxSteps = 1000;
constexpr int kPhysicsSteps = 5;  // in an env step

}  // namespace

BareHalfCheetahs::BareHalfCheetahs(size_t count)
    : model_(*MujocoModel::FromText("bare half-cheetah", HalfCheetahModel())),
      rng_(0, "bare_half_cheetahs"),
      episodes_(count) {
  for (Episode& episode : episodes_) {
    episode.data.reset(mj_makeData(&model_->get()));
    Start(&episode);
  }
}

void BareHalfCheetahs::Start(Episode* episode) {
  const mjModel& model = model_->get();
  mjData* const data = episode->data.get();
  mj_resetData(&model, data);
  for (int i = 0; i < model.nq; ++i) data->qpos[i] += rng_.Uniform(-0.1, 0.1);
  for (int i = 0; i < model.nv; ++i) data->qvel[i] = 0.1 * rng_.Normal();
  mj_forward(&model, data);
  episode->steps = 0;
}

void BareHalfCheetahs::Step(size_t which) {
  const mjModel& model = model_->get();
  Episode& episode = episodes_[which];
  mjData* const data = episode.data.get();
  for (int i = 0; i < model.nu; ++i) data->ctrl[i] = std::clamp(rng_.Normal(), -1.0, 1.0);
  for (int i = 0; i < kPhysicsSteps; ++i) mj_step(&model, data);
  if (++episode.steps == kMaxSteps) Start(&episode);
}

}  // namespace ding
