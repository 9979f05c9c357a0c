// A pause for loops that look again and again at what another thread or process will change.
#ifndef DING_WORKER_BASE_PAUSE_H_
#define DING_WORKER_BASE_PAUSE_H_

#include "ding_worker/base/language.h"

namespace ding {

// Tells the processor that this thread waits, so that it leaves more of the core and of the memory to others.
inline void Pause() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#endif
}

}  // namespace ding

#endif  // DING_WORKER_BASE_PAUSE_H_
