// Makes stores by URL: "<scheme>:<place>", optionally with settings.
//
//   mem:                             private to this object
//   mem:run7                         shared by all stores of that name in this process
//   file:/dev/shm/run7               a folder
//   file:/dev/shm/run7?compress=lz4  the same, with compressed values (compressed_store.h)
//   redis:HOST:PORT/run7?password_file=/etc/redis.password&compress=lz4
//   redis:A:6379,B:6379/run7         several servers (sharded_store.h)
//   rediss:HOST:PORT/run7?tls_ca=/etc/ca.pem   with TLS
//
// Settings follow a '?', with '&' between them. "compress" is for every scheme; the others belong
// to one scheme.
//
// A program has the schemes and codecs whose *_factory.cc and *_codec.cc it links.
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

// The values of the settings by name, without "compress".
using StoreSettings = std::map<std::string, std::string>;
// Makes a store. `place` is the text after "<scheme>:", without settings.
using StoreFactory = std::function<absl::StatusOr<std::unique_ptr<Store>>(
    const std::string& place, const StoreSettings& settings)>;
Registry<StoreFactory>& StoreRegistry();

// Returns kInvalidArgument if there is a setting whose name is not among `known`. Factories call
// it.
absl::Status CheckStoreSettings(const StoreSettings& settings,
                                absl::Span<const absl::string_view> known);

// Makes the store of a URL.
//   kNotFound         the scheme or codec is not linked; the message lists the linked ones
//   kInvalidArgument  `url` does not have this form, or has an unknown setting
//   others            the errors of the scheme
absl::StatusOr<std::unique_ptr<Store>> create_store(absl::string_view url);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_STORE_STORE_REGISTRY_H_
