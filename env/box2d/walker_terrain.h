// The ground of BipedalWalker: a line of 200 corners, and for the hardcore task pits, stumps and stairs, laid out
// as in Gymnasium's BipedalWalker-v3 from random numbers of this project.
//
// Threads: thread-safe (a pure function).
#ifndef DING_WORKER_ENV_BOX2D_WALKER_TERRAIN_H_
#define DING_WORKER_ENV_BOX2D_WALKER_TERRAIN_H_

#include <array>
#include <vector>

#include "ding_worker/base/rng.h"
#include "ding_worker/env/box2d/world.h"
#include "ding_worker/env/classic_control/raster.h"

namespace ding {

inline constexpr double kTerrainStep = 14 / kBox2dScale;  // m between corners
inline constexpr int kTerrainLength = 200;                // corners
inline constexpr double kTerrainHeight = kBox2dHeight / 4;
inline constexpr int kTerrainGrass = 10;     // corners, the longest stretch of one kind
inline constexpr int kTerrainStartPad = 20;  // corners, even

struct WalkerTerrain {
  std::vector<double> heights;                  // m, of the corners
  std::vector<std::array<Point, 4>> obstacles;  // corners in m, in the order in which they are met
};

WalkerTerrain MakeWalkerTerrain(bool hardcore, Rng* rng);

}  // namespace ding

#endif  // DING_WORKER_ENV_BOX2D_WALKER_TERRAIN_H_
