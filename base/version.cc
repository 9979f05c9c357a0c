#include "ding_worker/base/version.h"

extern "C" {

extern const char ding_worker_has_two_versions_in_one_program[];
const char ding_worker_has_two_versions_in_one_program[] = DING_WORKER_VERSION;

const char DING_WORKER_VERSION_SYMBOL[] = DING_WORKER_VERSION;

}  // extern "C"
