// Tests of the tasks on MuJoCo as the registry creates them: they conform, a saved episode
// continues bit for bit, envs share a model, and a model of the user is refused with a reason or
// runs. formulas_test.sh compares rewards and observations with formulas written apart.
#include "mujoco/mujoco.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/mujoco/models.h"
#include "ding_worker/env/mujoco/mujoco.pb.h"
#include "ding_worker/env/mujoco/mujoco_model.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using ::testing::ElementsAre;

// Writes `text` into a file of its own and returns the path.
std::string WriteModel(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", name, ".xml");
  EXPECT_THAT(WriteFileAtomically(path, text), IsOk());
  return path;
}

// A cart that is pulled along a rail. Its mass is part of the text.
std::string Cart(const std::string& mass, const std::string& motor = "ctrlrange='-1 1'") {
  return absl::StrCat(
      "<mujoco><option timestep='0.01'/><worldbody><camera name='above' pos='0 0 3'/><body>"
      "<joint name='rail' type='slide' axis='1 0 0'/><geom size='0.1' mass='",
      mass, "'/></body></worldbody><actuator><motor joint='rail' gear='10' ctrllimited='",
      motor.empty() ? "false" : "true", "' ", motor, "/></actuator></mujoco>");
}

absl::StatusOr<std::unique_ptr<Env>> Create(const std::string& name) {
  EnvConfig config;
  config.set_type(name);
  return create_env(config);
}

absl::StatusOr<std::unique_ptr<Env>> Create(const MjcfParams& params) {
  EnvConfig config;
  config.set_type("MJCF");
  config.mutable_params()->PackFrom(params);
  return create_env(config);
}

MjcfParams CartParams() {
  MjcfParams params;
  params.set_model_file(WriteModel("cart", Cart("2")));
  params.set_forward_joint("rail");
  params.set_frame_skip(2);
  params.set_max_episode_steps(50);
  return params;
}

std::vector<std::string> Tasks() {
  std::vector<std::string> names;
  for (const std::string& name : EnvRegistry().Names()) {
    if (name != "MJCF") names.push_back(name);
  }
  return names;
}

std::vector<EnvConformanceCase> AllEnvs() {
  std::vector<EnvConformanceCase> cases;
  for (const std::string& name : Tasks()) {
    cases.push_back({absl::StrReplaceAll(name, {{"-", "_"}}), [name] { return Create(name); }});
  }
  cases.push_back({"MJCF", [] { return Create(CartParams()); }});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Mujoco, EnvConformance, testing::ValuesIn(AllEnvs()), EnvConformanceName);

// An env with its rows.
class Stage {
 public:
  explicit Stage(absl::StatusOr<std::unique_ptr<Env>> env)
      : env_(*std::move(env)),
        row_(*BatchBuilder::Create(env_->spec().observation, 1)),
        action_(*BatchBuilder::Create(env_->spec().action, 1)) {}

  Env& env() { return *env_; }
  absl::Span<const float> obs() const { return row_.column<float>(0); }
  const StepResult& result() const { return result_; }

  void Reset(uint64_t seed) { ASSERT_THAT(env_->Reset({seed, {}}, row_.view().row(0)), IsOk()); }
  absl::Status Step(float action) {
    for (float& number : action_.column<float>(0)) number = action;
    result_ = StepResult();
    return env_->Step(ColumnsView(action_.view()).row(0), row_.view().row(0), &result_);
  }

 private:
  std::unique_ptr<Env> env_;
  BatchBuilder row_;
  BatchBuilder action_;
  StepResult result_;
};

TEST(MujocoTest, AllAreRegisteredUnderTheirNames) {
  EXPECT_THAT(EnvRegistry().Names(),
              ElementsAre("Ant-v4", "HalfCheetah-v4", "Hopper-v4", "InvertedDoublePendulum-v4",
                          "InvertedPendulum-v4", "MJCF", "Pusher-v4", "Reacher-v4", "Swimmer-v4",
                          "Walker2d-v4"));
  for (const std::string& name : Tasks()) {
    DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Env> env, Create(name));
    EXPECT_EQ(env->spec().name, name);
  }
}

TEST(MujocoTest, EnvsShareAModelUntilTheLastIsGone) {
  DING_ASSERT_OK_AND_ASSIGN(std::shared_ptr<const MujocoModel> first,
                            MujocoModel::FromText("shared", HopperModel()));
  DING_ASSERT_OK_AND_ASSIGN(std::shared_ptr<const MujocoModel> second,
                            MujocoModel::FromText("shared", HopperModel()));
  EXPECT_EQ(first, second);
  second.reset();
  const std::weak_ptr<const MujocoModel> watched = first;
  first.reset();
  EXPECT_TRUE(watched.expired());
}

// Masses of Gymnasium's models, in kg.
TEST(MujocoTest, ModelsHaveThePublishedMasses) {
  const std::pair<std::string, double> masses[] = {{AntModel(), 0.910880},
                                                   {HalfCheetahModel(), 14},
                                                   {HopperModel(), 15.8200},
                                                   {PusherModel(), 13.673},
                                                   {InvertedPendulumModel(), 15.4906},
                                                   {SwimmerModel(), 106.814},
                                                   {Walker2dModel(), 23.6771},
                                                   {InvertedDoublePendulumModel(), 18.8695},
                                                   {ReacherModel(), 0.0784519}};
  for (const auto& [text, mass] : masses) {
    DING_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const MujocoModel> model,
                              MujocoModel::FromText(absl::StrCat("mass ", mass), text));
    EXPECT_NEAR(mj_getTotalmass(&model->get()), mass, 1e-4 * mass);
  }
}

TEST(MujocoTest, AModelOfTheUserMovesAsNewtonSays) {
  Stage stage(Create(CartParams()));
  stage.Reset(1);
  const double speed = stage.obs()[1];
  ASSERT_THAT(stage.Step(0.5), IsOk());
  // 0.5 * 10 N on 2 kg for 0.02 s.
  EXPECT_NEAR(stage.obs()[1] - speed, 0.05, 1e-6);
  EXPECT_NEAR(stage.result().reward, speed + 0.0375, 1e-5);  // the mean of the two new speeds
}

TEST(MujocoTest, HealthyRangesEndEpisodes) {
  MjcfParams params = CartParams();
  params.set_alive_reward(3);
  params.set_action_cost(2);
  params.set_forward_weight(0);
  JointRange* const range = params.add_healthy();
  range->set_joint("rail");
  range->set_low(-0.02);
  range->set_high(0.02);
  Stage stage(Create(params));
  stage.Reset(1);
  int steps = 0;
  while (!stage.result().terminated && steps < 50) {
    ASSERT_THAT(stage.Step(1), IsOk());
    EXPECT_FLOAT_EQ(stage.result().reward, 1);  // 3 - 2 * 1
    EXPECT_EQ(stage.result().terminated, std::abs(stage.obs()[0]) > 0.02f);
    ++steps;
  }
  EXPECT_LT(steps, 50);
}

void ExpectRefused(const MjcfParams& params, absl::StatusCode code, const std::string& text) {
  EXPECT_THAT(Create(params), IsError(code, "MJCF", text));
}

TEST(MujocoTest, RefusesModelsAndParams) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  ExpectRefused(MjcfParams(), invalid, "model_file is not set");
  MjcfParams params = CartParams();
  params.set_model_file("/nowhere/robot.xml");
  ExpectRefused(params, absl::StatusCode::kNotFound, "/nowhere/robot.xml");
  params.set_model_file(WriteModel("broken", "<mujoco><worldbody>"));
  ExpectRefused(params, invalid, "broken.xml");
  params.set_model_file(WriteModel("still", "<mujoco><worldbody/></mujoco>"));
  params.clear_forward_joint();
  ExpectRefused(params, invalid, "has no actuators");
  params.set_model_file(WriteModel("unbounded", Cart("2", "")));
  ExpectRefused(params, invalid, "has no ctrlrange");

  params = CartParams();
  params.set_forward_joint("wheel");
  ExpectRefused(params, invalid, "has no joint 'wheel'; it has: rail");
  params = CartParams();
  params.set_camera("below");
  ExpectRefused(params, invalid, "has no camera 'below'; it has: above");
  params = CartParams();
  params.add_healthy()->set_joint("rail");
  ExpectRefused(params, invalid, "needs low and high");
  params = CartParams();
  params.set_frame_skip(0);
  EXPECT_THAT(Create(params), IsInvalid("frame_skip is 0"));
  params = CartParams();
  params.set_first_shown_position(2);
  ExpectRefused(params, invalid, "first_shown_position is 2, expected 0..1");
  params = CartParams();
  params.set_reset_noise(-1);
  EXPECT_THAT(Create(params), IsInvalid("reset_noise is -1"));
  params = CartParams();
  params.clear_forward_joint();
  params.set_forward_weight(2);
  ExpectRefused(params, invalid, "set forward_joint");
}

TEST(MujocoTest, AFreeJointHasNoSpeedOfItsOwn) {
  DING_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const MujocoModel> model,
                            MujocoModel::FromText("free", AntModel()));
  EXPECT_THAT(model->FindJoint("root"), IsInvalid("of several numbers"));
}

// Steps the only env of a manager.
absl::StatusOr<const Timesteps*> StepOnly(BaseEnvManager* manager, float action) {
  std::byte* const column = reinterpret_cast<std::byte*>(&action);
  const ColumnsView actions(manager->env_spec().action.get(), &column, 0, 1);
  return manager->Step(manager->ready_obs().env_ids, actions);
}

TEST(MujocoTest, UnstablePhysicsIsAbnormalAndTheRunGoesOn) {
  // The spring is too stiff for the time step, so that the cart swings ever wider.
  const std::string path = WriteModel(
      "unstable",
      absl::StrReplaceAll(Cart("1e-4"), {{"name='rail'", "name='rail' stiffness='1e8'"}}));
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<BaseEnvManager> manager,
                            BaseEnvManager::Create({}, {[path] {
                                                     MjcfParams params;
                                                     params.set_model_file(path);
                                                     return Create(params);
                                                   }}));
  ASSERT_THAT(manager->Launch(), IsOk());
  int abnormal = 0;
  for (int step = 0; step < 60; ++step) {
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepOnly(manager.get(), 1));
    abnormal += steps->abnormal[0] != 0;
    EXPECT_TRUE(steps->finished.empty());
  }
  EXPECT_GE(abnormal, 2);
}

TEST(MujocoTest, ManagersRefuseActionsThatAreNaNOrTooLarge) {
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<BaseEnvManager> manager,
                            BaseEnvManager::Create({}, {[] { return Create(CartParams()); }}));
  ASSERT_THAT(manager->Launch(), IsOk());
  EXPECT_THAT(StepOnly(manager.get(), std::nanf("")), IsInvalid("nan"));
  EXPECT_THAT(StepOnly(manager.get(), 1.5), IsInvalid());
  EXPECT_THAT(StepOnly(manager.get(), 1), IsOk());
}

TEST(MujocoTest, RefusesBrokenStates) {
  Stage stage(Create("Hopper-v4"));
  stage.Reset(0);
  StateDict good;
  ASSERT_THAT(stage.env().SaveState(&good), IsOk());
  Stage other(Create("Walker2d-v4"));
  EXPECT_THAT(other.env().LoadState(&good), IsInvalid("expected 9 elements"));
  StateDict bad;
  ASSERT_THAT(bad.WriteSpan<double>("qpos", std::vector<double>(6, std::nan(""))), IsOk());
  EXPECT_THAT(stage.env().LoadState(&bad), IsInvalid("'qpos' contains nan"));
}

TEST(MujocoTest, RendersEachTaskAndDrawingChangesNothing) {
  for (const std::string& name : Tasks()) {
    SCOPED_TRACE(name);
    Stage stage(Create(name));
    Stage unseen(Create(name));
    stage.Reset(5);
    unseen.Reset(5);
    for (int i = 0; i < 2; ++i) {
      DING_ASSERT_OK_AND_ASSIGN(const Image image, stage.env().Render());
      ASSERT_EQ(image.rgb.size(), static_cast<size_t>(3 * image.width * image.height));
      // There is more to see than sky and ground.
      const std::set<uint8_t> shades(image.rgb.begin(), image.rgb.end());
      EXPECT_GT(shades.size(), 20u);
      ASSERT_THAT(stage.Step(0.3f), IsOk());
      ASSERT_THAT(unseen.Step(0.3f), IsOk());
      EXPECT_TRUE(std::equal(stage.obs().begin(), stage.obs().end(), unseen.obs().begin()));
      EXPECT_EQ(stage.result().reward, unseen.result().reward);
    }
  }
}

}  // namespace
}  // namespace ding
