#include "ding_worker/interaction/store/codec.h"

namespace ding {

Registry<const Codec*>& CodecRegistry() {
  static auto* const registry = new Registry<const Codec*>("codec");
  return *registry;
}

}  // namespace ding
