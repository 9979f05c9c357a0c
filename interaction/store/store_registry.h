// Makes stores by URL: "<scheme>:<place>", perhaps with settings.
//
//   mem:                             private to this object
//   mem:run7                         shared by all of that name in this process
//   file:/dev/shm/run7               a folder
//   file:/dev/shm/run7?compress=lz4  the same; values are compressed (compressed_store.h)
//
// Schemes and codecs are those of the *_factory.cc and *_codec.cc that a program links.
//
// Example:
//   DING_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, create_store("file:/dev/shm/run7"));
#ifndef DING_WORKER_INTERACTION_STORE_STORE_REGISTRY_H_
#define DING_WORKER_INTERACTION_STORE_STORE_REGISTRY_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

// What follows "<scheme>:", without settings.
using StoreFactory =
    std::function<absl::StatusOr<std::unique_ptr<Store>>(const std::string& place)>;
Registry<StoreFactory>& StoreRegistry();

//   kNotFound         a scheme or codec that is not linked; lists those that are
//   kInvalidArgument  not such a URL, or an unknown setting
//   others            of the scheme
absl::StatusOr<std::unique_ptr<Store>> create_store(absl::string_view url);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_STORE_REGISTRY_H_
