// Makes docs/reference/config.md: the help of `--help_config` as a page.
#ifndef DING_WORKER_WORKER_CONFIG_CONFIG_PAGE_H_
#define DING_WORKER_WORKER_CONFIG_CONFIG_PAGE_H_

#include <string>

namespace ding {

// The page about every field that a config may have with the types of this program.
std::string ConfigPage();

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_CONFIG_PAGE_H_
