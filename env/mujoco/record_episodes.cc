// Prints episodes of the tasks on MuJoCo, one JSON object per line, for testdata/formulas.py: what
// the env showed and paid, beside the state of a second simulation of the same model, which takes
// each step from the state in which the env takes it.
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/mujoco/models.h"
#include "ding_worker/env/mujoco/mujoco_model.h"
#include "ding_worker/env/mujoco/mujoco_tasks.h"
#include "mujoco/mujoco.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using nlohmann::json;

struct Case {
  absl::StatusOr<std::unique_ptr<Env>> (*create)();
  std::string (*model)();
  int frame_skip;
};
const Case kCases[] = {
    {CreateAnt, AntModel, 5},
    {CreateHalfCheetah, HalfCheetahModel, 5},
    {CreateHopper, HopperModel, 4},
    {CreateInvertedDoublePendulum, InvertedDoublePendulumModel, 5},
    {CreateInvertedPendulum, InvertedPendulumModel, 2},
    {CreatePusher, PusherModel, 5},
    {CreateReacher, ReacherModel, 2},
    {CreateSwimmer, SwimmerModel, 4},
    {CreateWalker2d, Walker2dModel, 4},
};

json Numbers(const mjtNum* numbers, int count) {
  return absl::MakeSpan(numbers, static_cast<size_t>(count));
}

json Describe(const mjModel& m, const mjData& data) {
  json bodies = json::object();
  for (int i = 1; i < m.nbody; ++i) {
    if (const char* const name = mj_id2name(&m, mjOBJ_BODY, i)) {
      bodies[name] = Numbers(data.xpos + 3 * i, 3);
    }
  }
  return {{"qpos", Numbers(data.qpos, m.nq)},
          {"qvel", Numbers(data.qvel, m.nv)},
          {"limits", Numbers(data.qfrc_constraint, m.nv)},
          {"sites", Numbers(data.site_xpos, 3 * m.nsite)},
          {"bodies", bodies}};
}

// Sets the simulation to where the env is.
void Follow(const Env& env, const mjModel& m, mjData* data) {
  StateDict state;
  for (const absl::Status& status :
       {env.SaveState(&state),
        state.ReadSpan<double>("qpos", absl::MakeSpan(data->qpos, static_cast<size_t>(m.nq))),
        state.ReadSpan<double>("qvel", absl::MakeSpan(data->qvel, static_cast<size_t>(m.nv))),
        state.ReadSpan<double>("warmstart",
                               absl::MakeSpan(data->qacc_warmstart, static_cast<size_t>(m.nv)))}) {
    DING_CHECK(status.ok()) << status;
  }
}

void Record(const Case& kind, uint64_t seed) {
  const std::unique_ptr<Env> env = *kind.create();
  const std::shared_ptr<const MujocoModel> model =
      *MujocoModel::FromText("recorded " + env->spec().name, kind.model());
  const mjModel& m = model->get();
  mjData* const data = mj_makeData(&m);
  BatchBuilder rows = *BatchBuilder::Create(env->spec().observation, 1);
  BatchBuilder actions = *BatchBuilder::Create(env->spec().action, 1);
  const absl::Span<float> action = actions.column<float>(0);
  const absl::Span<const float> obs = rows.column<float>(0);
  absl::Status status = env->Reset({seed, {}}, rows.view().row(0));
  DING_CHECK(status.ok()) << status;
  Follow(*env, m, data);
  mj_forward(&m, data);
  json line = Describe(m, *data);
  line["env"] = env->spec().name;
  line["limit"] = env->spec().max_episode_steps;
  line["seconds"] = m.opt.timestep * kind.frame_skip;
  line["low"] = env->spec().action->field(0).low;
  line["high"] = env->spec().action->field(0).high;
  line["obs"] = obs;
  std::cout << line << "\n";
  Rng rng(seed, "record/actions");
  StepResult result;
  for (int64_t step = 0; step < 120 && !result.terminated && !result.truncated; ++step) {
    for (size_t i = 0; i < action.size(); ++i) {
      const double high = m.actuator_ctrlrange[2 * i + 1];
      action[i] = static_cast<float>(rng.Uniform(-high, high));
      data->ctrl[i] = action[i];
    }
    Follow(*env, m, data);
    result = StepResult();
    status = env->Step(ColumnsView(actions.view()).row(0), rows.view().row(0), &result);
    DING_CHECK(status.ok()) << status;
    for (int i = 0; i < kind.frame_skip; ++i) mj_step(&m, data);
    line = Describe(m, *data);
    line["action"] = action;
    line["obs"] = obs;
    line["reward"] = result.reward;
    line["terminated"] = result.terminated;
    line["truncated"] = result.truncated;
    std::cout << line << "\n";
  }
  mj_deleteData(data);
}

}  // namespace
}  // namespace ding

int main() {
  for (const ding::Case& kind : ding::kCases) {
    for (uint64_t seed = 0; seed < 4; ++seed) ding::Record(kind, seed);
  }
  return 0;
}
