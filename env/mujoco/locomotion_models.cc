#include "ding_worker/env/mujoco/models.h"

namespace ding {
namespace {

// clang-format off

// The four legs are written out, so that the text can be read, and compared with the original, as
// it is.
constexpr char kAnt[] = R"(<mujoco model="ant">
  <option timestep="0.01" integrator="RK4"/>
  <scene/>
  <default>
    <geom type="capsule" size="0.08" density="5" friction="1 0.5 0.5" condim="3" conaffinity="0"
          margin="0.01" rgba="0.6 0.4 0.2 1"/>
    <joint type="hinge" limited="true" armature="1" damping="1"/>
    <motor ctrllimited="true" ctrlrange="-1 1" gear="150"/>
  </default>
  <worldbody>
    <light/>
    <geom name="floor" type="plane" size="100 100 1" conaffinity="1" material="ground"
          rgba="1 1 1 1"/>
    <body name="torso" pos="0 0 0.75">
      <camera name="side" mode="trackcom" pos="0 -3 1.5" xyaxes="1 0 0 0 0.45 0.9"/>
      <joint name="root" type="free" limited="false" armature="0" damping="0" margin="0.01"/>
      <geom name="torso" type="sphere" size="0.25"/>
      <body name="leg_1">
        <geom fromto="0 0 0 0.2 0.2 0"/>
        <body name="upper_1" pos="0.2 0.2 0">
          <joint name="hip_1" axis="0 0 1" range="-30 30"/>
          <geom fromto="0 0 0 0.2 0.2 0"/>
          <body name="lower_1" pos="0.2 0.2 0">
            <joint name="ankle_1" axis="-1 1 0" range="30 70"/>
            <geom fromto="0 0 0 0.4 0.4 0" rgba="0.75 0.6 0.3 1"/>
          </body>
        </body>
      </body>
      <body name="leg_2">
        <geom fromto="0 0 0 -0.2 0.2 0"/>
        <body name="upper_2" pos="-0.2 0.2 0">
          <joint name="hip_2" axis="0 0 1" range="-30 30"/>
          <geom fromto="0 0 0 -0.2 0.2 0"/>
          <body name="lower_2" pos="-0.2 0.2 0">
            <joint name="ankle_2" axis="1 1 0" range="-70 -30"/>
            <geom fromto="0 0 0 -0.4 0.4 0" rgba="0.75 0.6 0.3 1"/>
          </body>
        </body>
      </body>
      <body name="leg_3">
        <geom fromto="0 0 0 -0.2 -0.2 0"/>
        <body name="upper_3" pos="-0.2 -0.2 0">
          <joint name="hip_3" axis="0 0 1" range="-30 30"/>
          <geom fromto="0 0 0 -0.2 -0.2 0"/>
          <body name="lower_3" pos="-0.2 -0.2 0">
            <joint name="ankle_3" axis="-1 1 0" range="-70 -30"/>
            <geom fromto="0 0 0 -0.4 -0.4 0" rgba="0.75 0.6 0.3 1"/>
          </body>
        </body>
      </body>
      <body name="leg_4">
        <geom fromto="0 0 0 0.2 -0.2 0"/>
        <body name="upper_4" pos="0.2 -0.2 0">
          <joint name="hip_4" axis="0 0 1" range="-30 30"/>
          <geom fromto="0 0 0 0.2 -0.2 0"/>
          <body name="lower_4" pos="0.2 -0.2 0">
            <joint name="ankle_4" axis="1 1 0" range="30 70"/>
            <geom fromto="0 0 0 0.4 -0.4 0" rgba="0.75 0.6 0.3 1"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="hip_4"/>
    <motor joint="ankle_4"/>
    <motor joint="hip_1"/>
    <motor joint="ankle_1"/>
    <motor joint="hip_2"/>
    <motor joint="ankle_2"/>
    <motor joint="hip_3"/>
    <motor joint="ankle_3"/>
  </actuator>
</mujoco>
)";

constexpr char kHalfCheetah[] = R"(<mujoco model="half_cheetah">
  <compiler angle="radian" settotalmass="14"/>
  <option timestep="0.01"/>
  <scene/>
  <default>
    <geom type="capsule" size="0.046" contype="1" conaffinity="0" condim="3" friction="0.4 0.1 0.1"
          solimp="0 0.8 0.01" solref="0.02 1" rgba="0.85 0.55 0.25 1"/>
    <joint type="hinge" axis="0 1 0" limited="true" armature="0.1" solimplimit="0 0.8 0.03"
           solreflimit="0.02 1"/>
    <default class="root">
      <joint limited="false" armature="0" damping="0" stiffness="0"/>
    </default>
    <motor ctrllimited="true" ctrlrange="-1 1"/>
  </default>
  <worldbody>
    <light/>
    <geom name="floor" type="plane" size="100 100 1" conaffinity="1" material="ground"
          rgba="1 1 1 1"/>
    <body name="torso" pos="0 0 0.7">
      <camera name="side" mode="trackcom" pos="0 -3 0.3" xyaxes="1 0 0 0 0.1 1"/>
      <joint class="root" name="rootx" type="slide" axis="1 0 0"/>
      <joint class="root" name="rootz" type="slide" axis="0 0 1"/>
      <joint class="root" name="rooty"/>
      <geom name="torso" fromto="-0.5 0 0 0.5 0 0"/>
      <geom name="head" pos="0.6 0 0.1" axisangle="0 1 0 0.87" size="0.046 0.15"/>
      <body name="bthigh" pos="-0.5 0 0">
        <joint name="bthigh" range="-0.52 1.05" stiffness="240" damping="6"/>
        <geom name="bthigh" pos="0.1 0 -0.13" axisangle="0 1 0 -3.8" size="0.046 0.145"/>
        <body name="bshin" pos="0.16 0 -0.25">
          <joint name="bshin" range="-0.785 0.785" stiffness="180" damping="4.5"/>
          <geom name="bshin" pos="-0.14 0 -0.07" axisangle="0 1 0 -2.03" size="0.046 0.15"/>
          <body name="bfoot" pos="-0.28 0 -0.14">
            <joint name="bfoot" range="-0.4 0.785" stiffness="120" damping="3"/>
            <geom name="bfoot" pos="0.03 0 -0.097" axisangle="0 1 0 -0.27" size="0.046 0.094"/>
          </body>
        </body>
      </body>
      <body name="fthigh" pos="0.5 0 0">
        <joint name="fthigh" range="-1 0.7" stiffness="180" damping="4.5"/>
        <geom name="fthigh" pos="-0.07 0 -0.12" axisangle="0 1 0 0.52" size="0.046 0.133"/>
        <body name="fshin" pos="-0.14 0 -0.24">
          <joint name="fshin" range="-1.2 0.87" stiffness="120" damping="3"/>
          <geom name="fshin" pos="0.065 0 -0.09" axisangle="0 1 0 -0.6" size="0.046 0.106"/>
          <body name="ffoot" pos="0.13 0 -0.18">
            <joint name="ffoot" range="-0.5 0.5" stiffness="60" damping="1.5"/>
            <geom name="ffoot" pos="0.045 0 -0.07" axisangle="0 1 0 -0.6" size="0.046 0.07"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="bthigh" gear="120"/>
    <motor joint="bshin" gear="90"/>
    <motor joint="bfoot" gear="60"/>
    <motor joint="fthigh" gear="120"/>
    <motor joint="fshin" gear="60"/>
    <motor joint="ffoot" gear="30"/>
  </actuator>
</mujoco>
)";

constexpr char kHopper[] = R"(<mujoco model="hopper">
  <option timestep="0.002" integrator="RK4"/>
  <scene/>
  <default>
    <geom type="capsule" size="0.05" friction="0.9" condim="1" margin="0.001" solimp="0.8 0.8 0.01"
          solref="0.02 1" rgba="0.3 0.55 0.8 1"/>
    <joint type="hinge" axis="0 -1 0" limited="true" armature="1" damping="1"/>
    <default class="root">
      <joint limited="false" armature="0" damping="0"/>
    </default>
    <motor ctrllimited="true" ctrlrange="-1 1" gear="200"/>
  </default>
  <worldbody>
    <light/>
    <geom name="floor" type="plane" size="100 100 1" friction="1" condim="3" material="ground"
          rgba="1 1 1 1"/>
    <body name="torso" pos="0 0 1.25">
      <camera name="side" mode="trackcom" pos="0 -3.8 -0.1" xyaxes="1 0 0 0 0 1"/>
      <joint class="root" name="rootx" type="slide" axis="1 0 0"/>
      <joint class="root" name="rootz" type="slide" axis="0 0 1" ref="1.25"/>
      <joint class="root" name="rooty" axis="0 1 0"/>
      <geom name="torso" fromto="0 0 0.2 0 0 -0.2"/>
      <body name="thigh" pos="0 0 -0.2">
        <joint name="thigh_joint" range="-150 0"/>
        <geom name="thigh" fromto="0 0 0 0 0 -0.45"/>
        <body name="leg" pos="0 0 -0.45">
          <joint name="leg_joint" range="-150 0"/>
          <geom name="leg" fromto="0 0 0 0 0 -0.5" size="0.04"/>
          <body name="foot" pos="0 0 -0.5">
            <joint name="foot_joint" range="-45 45"/>
            <geom name="foot" fromto="-0.13 0 0 0.26 0 0" size="0.06" friction="2"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="thigh_joint"/>
    <motor joint="leg_joint"/>
    <motor joint="foot_joint"/>
  </actuator>
</mujoco>
)";

constexpr char kSwimmer[] = R"(<mujoco model="swimmer">
  <option timestep="0.01" integrator="RK4" density="4000" viscosity="0.1"/>
  <scene/>
  <default>
    <geom type="capsule" size="0.1" density="1000" contype="0" conaffinity="0" condim="1"
          rgba="0.3 0.65 0.6 1"/>
    <joint type="hinge" axis="0 0 1" armature="0.1"/>
    <motor ctrllimited="true" ctrlrange="-1 1" gear="150"/>
  </default>
  <worldbody>
    <light/>
    <geom name="floor" type="plane" pos="0 0 -0.1" size="100 100 1" material="ground"
          rgba="1 1 1 1"/>
    <body name="torso">
      <camera name="side" mode="trackcom" pos="0 -3 3" xyaxes="1 0 0 0 1 1"/>
      <joint name="slider1" type="slide" axis="1 0 0"/>
      <joint name="slider2" type="slide" axis="0 1 0"/>
      <joint name="rotation"/>
      <geom name="torso" fromto="0.5 0 0 1.5 0 0"/>
      <body name="middle" pos="0.5 0 0">
        <joint name="motor1_rot" limited="true" range="-100 100"/>
        <geom name="middle" fromto="0 0 0 -1 0 0"/>
        <body name="back" pos="-1 0 0">
          <joint name="motor2_rot" limited="true" range="-100 100"/>
          <geom name="back" fromto="0 0 0 -1 0 0"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="motor1_rot"/>
    <motor joint="motor2_rot"/>
  </actuator>
</mujoco>
)";

constexpr char kWalker2d[] = R"(<mujoco model="walker2d">
  <option timestep="0.002" integrator="RK4"/>
  <scene/>
  <default>
    <geom type="capsule" size="0.05" friction="0.9 0.1 0.1" condim="3" contype="1" conaffinity="0"
          rgba="0.85 0.6 0.3 1"/>
    <joint type="hinge" axis="0 -1 0" limited="true" armature="0.01" damping="0.1"/>
    <default class="root">
      <joint limited="false" armature="0" damping="0"/>
    </default>
    <motor ctrllimited="true" ctrlrange="-1 1" gear="100"/>
  </default>
  <worldbody>
    <light/>
    <geom name="floor" type="plane" size="100 100 1" friction="0.7 0.1 0.1" conaffinity="1"
          material="ground"
          rgba="1 1 1 1"/>
    <body name="torso" pos="0 0 1.25">
      <camera name="side" mode="trackcom" pos="0 -3.8 -0.1" xyaxes="1 0 0 0 0 1"/>
      <joint class="root" name="rootx" type="slide" axis="1 0 0"/>
      <joint class="root" name="rootz" type="slide" axis="0 0 1" ref="1.25"/>
      <joint class="root" name="rooty" axis="0 1 0"/>
      <geom name="torso" fromto="0 0 0.2 0 0 -0.2"/>
      <body name="thigh" pos="0 0 -0.2">
        <joint name="thigh_joint" range="-150 0"/>
        <geom name="thigh" fromto="0 0 0 0 0 -0.45" rgba="0.85 0.6 0.3 1"/>
        <body name="leg" pos="0 0 -0.45">
          <joint name="leg_joint" range="-150 0"/>
          <geom name="leg" fromto="0 0 0 0 0 -0.5" size="0.04" rgba="0.85 0.6 0.3 1"/>
          <body name="foot" pos="0 0 -0.5">
            <joint name="foot_joint" range="-45 45"/>
            <geom name="foot" fromto="0 0 0 0.2 0 0" size="0.06" friction="0.9 0.1 0.1"
                  rgba="0.85 0.6 0.3 1"/>
          </body>
        </body>
      </body>
      <body name="thigh_left" pos="0 0 -0.2">
        <joint name="thigh_left_joint" range="-150 0"/>
        <geom name="thigh_left" fromto="0 0 0 0 0 -0.45" rgba="0.6 0.3 0.6 1"/>
        <body name="leg_left" pos="0 0 -0.45">
          <joint name="leg_left_joint" range="-150 0"/>
          <geom name="leg_left" fromto="0 0 0 0 0 -0.5" size="0.04" rgba="0.6 0.3 0.6 1"/>
          <body name="foot_left" pos="0 0 -0.5">
            <joint name="foot_left_joint" range="-45 45"/>
            <geom name="foot_left" fromto="0 0 0 0.2 0 0" size="0.06" friction="1.9 0.1 0.1"
                  rgba="0.6 0.3 0.6 1"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="thigh_joint"/>
    <motor joint="leg_joint"/>
    <motor joint="foot_joint"/>
    <motor joint="thigh_left_joint"/>
    <motor joint="leg_left_joint"/>
    <motor joint="foot_left_joint"/>
  </actuator>
</mujoco>
)";
// clang-format on

}  // namespace

std::string AntModel() { return CompleteModel(kAnt); }
std::string HalfCheetahModel() { return CompleteModel(kHalfCheetah); }
std::string HopperModel() { return CompleteModel(kHopper); }
std::string SwimmerModel() { return CompleteModel(kSwimmer); }
std::string Walker2dModel() { return CompleteModel(kWalker2d); }

}  // namespace ding
