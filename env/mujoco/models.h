// The models of the tasks, as MJCF. They have the published masses, lengths, gears, ranges, damping and contact
// parameters of Gymnasium's v4 models, so that qpos, qvel and actions mean the same; bodies stand where their
// joints are, and colours, lights and cameras are ours.
#ifndef DING_WORKER_ENV_MUJOCO_MODELS_H_
#define DING_WORKER_ENV_MUJOCO_MODELS_H_

#include <string>

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

}  // namespace ding

#endif  // DING_WORKER_ENV_MUJOCO_MODELS_H_
