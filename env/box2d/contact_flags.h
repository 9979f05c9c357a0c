// Says which bodies of a Box2D world touch something, as the rewards of LunarLander and BipedalWalker need it.
//
// A body is watched under a number. Its flag is set when it begins to touch another body, and cleared when any
// contact of it ends, even if it still touches something else: Gymnasium counts in the same way. A body that is
// watched as fatal sets crashed() for the rest of the episode instead.
//
// Ownership: owns nothing; the world must not outlive it.   Threads: thread-compatible.
#ifndef DING_WORKER_ENV_BOX2D_CONTACT_FLAGS_H_
#define DING_WORKER_ENV_BOX2D_CONTACT_FLAGS_H_

#include <array>
#include <cstddef>

#include "box2d/box2d.h"

namespace ding {

class ContactFlags final : public b2ContactListener {
 public:
  // Numbers 0 and 1.
  void Watch(int number, const b2Body* body) { feet_[static_cast<size_t>(number)] = body; }
  void WatchFatal(const b2Body* body) { fatal_ = body; }

  bool touches(int number) const { return touches_[static_cast<size_t>(number)]; }
  bool crashed() const { return crashed_; }

  void BeginContact(b2Contact* contact) override {
    crashed_ = crashed_ || Has(contact, fatal_);
    Set(contact, true);
  }
  void EndContact(b2Contact* contact) override { Set(contact, false); }

 private:
  static bool Has(b2Contact* contact, const b2Body* body) {
    return contact->GetFixtureA()->GetBody() == body || contact->GetFixtureB()->GetBody() == body;
  }
  void Set(b2Contact* contact, bool value) {
    for (size_t i = 0; i < feet_.size(); ++i) {
      if (Has(contact, feet_[i])) touches_[i] = value;
    }
  }

  std::array<const b2Body*, 2> feet_{};
  const b2Body* fatal_ = nullptr;
  std::array<bool, 2> touches_{};
  bool crashed_ = false;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_BOX2D_CONTACT_FLAGS_H_
