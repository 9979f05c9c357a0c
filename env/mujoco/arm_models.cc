#include "ding_worker/env/mujoco/models.h"

namespace ding {
namespace {

// clang-format off
constexpr char kInvertedDoublePendulum[] = R"(<mujoco model="inverted_double_pendulum">
  <option timestep="0.01" integrator="RK4" gravity="1e-5 0 -9.81"/>
  <scene/>
  <default>
    <geom type="capsule" contype="0" size="0.045" rgba="0.2 0.6 0.6 1"/>
    <joint damping="0.05"/>
  </default>
  <worldbody>
    <light/>
    <camera name="side" pos="0 -3.6 0.4" xyaxes="1 0 0 0 0 1"/>
    <geom name="rail" fromto="-1 0 0 1 0 0" size="0.02" rgba="0.3 0.35 0.6 1"/>
    <body name="cart">
      <joint name="slider" type="slide" axis="1 0 0" limited="true" range="-1 1" margin="0.01"/>
      <geom name="cart" fromto="-0.1 0 0 0.1 0 0" size="0.1" rgba="0.8 0.65 0.2 1"/>
      <body name="pole">
        <joint name="hinge" type="hinge" axis="0 1 0"/>
        <geom name="pole" fromto="0 0 0 0 0 0.6"/>
        <body name="pole2" pos="0 0 0.6">
          <joint name="hinge2" type="hinge" axis="0 1 0"/>
          <geom name="pole2" fromto="0 0 0 0 0 0.6"/>
          <site name="tip" pos="0 0 0.6" size="0.01"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="slide" joint="slider" gear="500" ctrllimited="true" ctrlrange="-1 1"/>
  </actuator>
</mujoco>
)";

constexpr char kInvertedPendulum[] = R"(<mujoco model="inverted_pendulum">
  <option timestep="0.02" integrator="RK4"/>
  <scene/>
  <default>
    <geom type="capsule" contype="0" rgba="0.8 0.65 0.2 1"/>
    <joint limited="true" damping="1"/>
  </default>
  <worldbody>
    <light/>
    <camera name="side" pos="0 -2.6 0.2" xyaxes="1 0 0 0 0 1"/>
    <geom name="rail" fromto="-1 0 0 1 0 0" size="0.02" rgba="0.3 0.35 0.6 1"/>
    <body name="cart">
      <joint name="slider" type="slide" axis="1 0 0" range="-1 1"/>
      <geom name="cart" fromto="-0.1 0 0 0.1 0 0" size="0.1"/>
      <body name="pole">
        <joint name="hinge" type="hinge" axis="0 1 0" range="-90 90"/>
        <geom name="pole" fromto="0 0 0 0.001 0 0.6" size="0.049" rgba="0.2 0.6 0.6 1"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="slide" joint="slider" gear="100" ctrllimited="true" ctrlrange="-3 3"/>
  </actuator>
</mujoco>
)";

constexpr char kPusher[] = R"(<mujoco model="pusher">
  <compiler angle="radian"/>
  <option timestep="0.01" gravity="0 0 0" iterations="20"/>
  <scene/>
  <default>
    <geom type="capsule" size="0.02" density="300" friction="0.8 0.1 0.1" condim="1" margin="0.002"
          contype="0"
          conaffinity="0" rgba="0.6 0.6 0.65 1"/>
    <joint type="hinge" axis="1 0 0" limited="true" armature="0.04" damping="0.1"/>
    <default class="loose">
      <geom density="0.00001"/>
      <joint type="slide" range="-10.3213 10.3" damping="0.5"/>
    </default>
    <motor ctrllimited="true" ctrlrange="-2 2"/>
  </default>
  <worldbody>
    <light/>
    <camera name="side" pos="0.9 -1.6 1.1" xyaxes="0.87 0.5 0 -0.28 0.48 0.83"/>
    <geom name="table" type="plane" pos="0 0.5 -0.325" size="1 1 1" contype="1" conaffinity="1"
          rgba="0.8 0.75 0.65 1"/>
    <body name="shoulder_pan" pos="0 -0.6 0">
      <joint name="r_shoulder_pan_joint" axis="0 0 1" range="-2.2854 1.714602" damping="1"/>
      <geom type="sphere" pos="-0.06 0.05 0.2" size="0.05"/>
      <geom type="sphere" pos="0.06 0.05 0.2" size="0.05"/>
      <geom type="sphere" pos="-0.06 0.09 0.2" size="0.03" rgba="0.1 0.1 0.1 1"/>
      <geom type="sphere" pos="0.06 0.09 0.2" size="0.03" rgba="0.1 0.1 0.1 1"/>
      <geom fromto="0 0 -0.4 0 0 0.2" size="0.1"/>
      <body name="shoulder_lift" pos="0.1 0 0">
        <joint name="r_shoulder_lift_joint" axis="0 1 0" range="-0.5236 1.3963" damping="1"/>
        <geom fromto="0 -0.1 0 0 0.1 0" size="0.1"/>
        <body name="upper_arm_roll">
          <joint name="r_upper_arm_roll_joint" range="-1.5 1.7"/>
          <geom fromto="-0.1 0 0 0.1 0 0"/>
          <body name="upper_arm">
            <geom fromto="0 0 0 0.4 0 0" size="0.06"/>
            <body name="elbow_flex" pos="0.4 0 0">
              <joint name="r_elbow_flex_joint" axis="0 1 0" range="-2.3213 0"/>
              <geom fromto="0 -0.02 0 0 0.02 0" size="0.06"/>
              <body name="forearm_roll">
                <joint name="r_forearm_roll_joint" range="-1.5 1.5"/>
                <geom fromto="-0.1 0 0 0.1 0 0"/>
                <body name="forearm">
                  <geom fromto="0 0 0 0.291 0 0" size="0.05"/>
                  <body name="wrist_flex" pos="0.321 0 0">
                    <joint name="r_wrist_flex_joint" axis="0 1 0" range="-1.094 0"/>
                    <geom fromto="0 -0.02 0 0 0.02 0" size="0.01"/>
                    <body name="wrist_roll">
                      <joint name="r_wrist_roll_joint" range="-1.5 1.5"/>
                      <geom fromto="0 -0.1 0 0 0.1 0" contype="1" conaffinity="1"/>
                      <geom fromto="0 -0.1 0 0.1 -0.1 0" contype="1" conaffinity="1"/>
                      <geom fromto="0 0.1 0 0.1 0.1 0" contype="1" conaffinity="1"/>
                      <body name="tips_arm">
                        <geom type="sphere" pos="0.1 -0.1 0" size="0.01"/>
                        <geom type="sphere" pos="0.1 0.1 0" size="0.01"/>
                      </body>
                    </body>
                  </body>
                </body>
              </body>
            </body>
          </body>
        </body>
      </body>
    </body>
    <body name="object" pos="0.45 -0.05 -0.275" childclass="loose">
      <joint name="obj_slidey" axis="0 1 0"/>
      <joint name="obj_slidex" axis="1 0 0"/>
      <geom type="sphere" size="0.05" rgba="1 1 1 0"/>
      <geom type="cylinder" size="0.05 0.05" contype="1" rgba="0.95 0.95 0.95 1"/>
    </body>
    <body name="goal" pos="0.45 -0.05 -0.323" childclass="loose">
      <joint name="goal_slidey" axis="0 1 0"/>
      <joint name="goal_slidex" axis="1 0 0"/>
      <geom type="cylinder" size="0.08 0.001" rgba="0.85 0.2 0.2 1"/>
    </body>
  </worldbody>
  <actuator>
    <motor joint="r_shoulder_pan_joint"/>
    <motor joint="r_shoulder_lift_joint"/>
    <motor joint="r_upper_arm_roll_joint"/>
    <motor joint="r_elbow_flex_joint"/>
    <motor joint="r_forearm_roll_joint"/>
    <motor joint="r_wrist_flex_joint"/>
    <motor joint="r_wrist_roll_joint"/>
  </actuator>
</mujoco>
)";

constexpr char kReacher[] = R"(<mujoco model="reacher">
  <compiler angle="radian"/>
  <option timestep="0.01" integrator="RK4"/>
  <scene/>
  <default>
    <geom type="capsule" size="0.01" contype="0" conaffinity="0" rgba="0.2 0.4 0.65 1"/>
    <joint type="hinge" axis="0 0 1" armature="1" damping="1"/>
    <motor ctrllimited="true" ctrlrange="-1 1" gear="200"/>
  </default>
  <worldbody>
    <light/>
    <camera name="side" pos="0 -0.3 0.75" xyaxes="1 0 0 0 1 0.4"/>
    <geom name="ground" type="plane" size="1 1 1" rgba="0.9 0.9 0.9 1"/>
    <geom fromto="-0.3 -0.3 0.01 0.3 -0.3 0.01" size="0.02" rgba="0.6 0.35 0.45 1"/>
    <geom fromto="0.3 -0.3 0.01 0.3 0.3 0.01" size="0.02" rgba="0.6 0.35 0.45 1"/>
    <geom fromto="-0.3 0.3 0.01 0.3 0.3 0.01" size="0.02" rgba="0.6 0.35 0.45 1"/>
    <geom fromto="-0.3 -0.3 0.01 -0.3 0.3 0.01" size="0.02" rgba="0.6 0.35 0.45 1"/>
    <body name="upper" pos="0 0 0.01">
      <joint name="joint0"/>
      <geom name="upper" fromto="0 0 0 0.1 0 0"/>
      <body name="lower" pos="0.1 0 0">
        <joint name="joint1" limited="true" range="-3 3"/>
        <geom name="lower" fromto="0 0 0 0.1 0 0"/>
        <body name="fingertip" pos="0.11 0 0">
          <geom name="fingertip" type="sphere" rgba="0.2 0.7 0.5 1"/>
        </body>
      </body>
    </body>
    <body name="target" pos="0.1 -0.1 0.01">
      <joint name="target_x" type="slide" axis="1 0 0" limited="true" range="-0.27 0.27" ref="0.1"
             armature="0" damping="0"/>
      <joint name="target_y" type="slide" axis="0 1 0" limited="true" range="-0.27 0.27" ref="-0.1"
             armature="0" damping="0"/>
      <geom name="target" type="sphere" size="0.009" rgba="0.85 0.2 0.2 1"/>
    </body>
  </worldbody>
  <actuator>
    <motor joint="joint0"/>
    <motor joint="joint1"/>
  </actuator>
</mujoco>
)";
// clang-format on

}  // namespace

std::string InvertedDoublePendulumModel() { return CompleteModel(kInvertedDoublePendulum); }
std::string InvertedPendulumModel() { return CompleteModel(kInvertedPendulum); }
std::string PusherModel() { return CompleteModel(kPusher); }
std::string ReacherModel() { return CompleteModel(kReacher); }

}  // namespace ding
