// Makes stores by URL: "<scheme>:<place>", perhaps with settings.
//
//   mem:                             private to this object
//   mem:run7                         shared by all of that name in this process
//   file:/dev/shm/run7               a folder
//   file:/dev/shm/run7?compress=lz4  the same; values are compressed (compressed_store.h)
//   redis:HOST:PORT/run7?password_file=/etc/redis.password&compress=lz4
//
// Settings stand behind '?', with '&' between them. "compress" is for every scheme, others are the
// scheme's own.
//
// Schemes and codecs are those of the *_factory.cc and *_codec.cc that a program links.
//
// Example:
//   DING_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, create_store("file:/dev/shm/run7"));
#ifndef DING_WORKER_INTERACTION_STORE_STORE_REGISTRY_H_
#define DING_WORKER_INTERACTION_STORE_STORE_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/interaction/store/store.h"

namespace ding {

// By name; without "compress".
using StoreSettings = std::map<std::string, std::string>;
// `place` follows "<scheme>:", without settings.
using StoreFactory = std::function<absl::StatusOr<std::unique_ptr<Store>>(
    const std::string& place, const StoreSettings& settings)>;
Registry<StoreFactory>& StoreRegistry();

// kInvalidArgument if there is a setting whose name is not among `known`: for factories.
absl::Status CheckStoreSettings(const StoreSettings& settings,
                                absl::Span<const absl::string_view> known);

//   kNotFound         a scheme or codec that is not linked; lists those that are
//   kInvalidArgument  not such a URL, or an unknown setting
//   others            of the scheme
absl::StatusOr<std::unique_ptr<Store>> create_store(absl::string_view url);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_STORE_REGISTRY_H_
