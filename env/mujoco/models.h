// The models of the tasks, as MJCF. They have the published masses, lengths, gears, ranges, damping
// and contact parameters of Gymnasium's v4 models, so that qpos, qvel and actions mean the same;
// bodies stand where their joints are, and colours, lights and cameras are ours.
//
// Threads: thread-safe.
#ifndef DING_WORKER_ENV_MUJOCO_MODELS_H_
#define DING_WORKER_ENV_MUJOCO_MODELS_H_

#include <string>

#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace ding {

std::string AntModel();
std::string HalfCheetahModel();
std::string HopperModel();
std::string InvertedDoublePendulumModel();
std::string InvertedPendulumModel();
std::string PusherModel();
std::string ReacherModel();
std::string SwimmerModel();
std::string Walker2dModel();

// The sky, ground and light of all our models: returns the text `model` with sky and ground in the
// place of <scene/>, and the light in the place of <light/>.
inline std::string CompleteModel(absl::string_view model) {
  // clang-format off
  static constexpr char kScene[] = R"(<visual>
    <headlight ambient="0.35 0.35 0.35" diffuse="0.5 0.5 0.5" specular="0.1 0.1 0.1"/>
    <map znear="0.02"/>
  </visual>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1="0.55 0.7 0.9" rgb2="0.9 0.95 1"
             width="64" height="64"/>
    <texture name="tiles" type="2d" builtin="checker" rgb1="0.35 0.45 0.4" rgb2="0.45 0.55 0.5"
             width="64" height="64"/>
    <material name="ground" texture="tiles" texrepeat="100 100" texuniform="false"/>
  </asset>)";
  static constexpr char kLight[] =
      R"(<light directional="true" pos="0 -2 5" dir="0 0.3 -1" diffuse="0.6 0.6 0.6"/>)";
  // clang-format on
  return absl::StrReplaceAll(model, {{"<scene/>", kScene}, {"<light/>", kLight}});
}

}  // namespace ding

#endif  // DING_WORKER_ENV_MUJOCO_MODELS_H_
