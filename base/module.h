// How to add a module: an implementation of an interface that a config chooses by its `type`.
//
// Write a maker, and register it in a .cc file whose target has `alwayslink`:
//
//   absl::StatusOr<std::unique_ptr<ISelector>> Make(const SelectorConfig& config,
//                                                   const my::WindowParams& params) { ... }
//   DING_REGISTER(SelectorRegistry(), "window", Make, "the newest rows");
//
//   selector { type: "window" params { [type.googleapis.com/my.WindowParams] { length: 3 } } }
//
// A maker takes the config, the params and the dependencies that the interface's registry names:
//
//   (config, const my::WindowParams&, deps...)  `params` are read; another message is refused
//   (config, const NoParams&, deps...)          takes no params: all are refused
//   (config, deps...)                           the maker reads them itself (base/params.h), and
//                                               the registration names the message
//
// An interface declares its type of module and a registry beside itself:
//
//   using SelectorFactory = Module<std::unique_ptr<ISelector>, SelectorConfig>;
//   inline ModuleRegistry<SelectorFactory>& SelectorRegistry() {
//     static auto* const registry = new ModuleRegistry<SelectorFactory>("selector");
//     return *registry;
//   }
//
// To tell more about a type, derive a struct from the Module and add fields to it. It is registered
// as `(BufferDescriptor{Make, /*tells_removed_items=*/true})`.
//
// Threads: thread-safe.
#ifndef DING_WORKER_BASE_MODULE_H_
#define DING_WORKER_BASE_MODULE_H_

#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

// The params of a type that takes none.
struct NoParams {};

namespace internal_module {

// The type of the second parameter of a function or of a lambda; Unknown if there is none.
struct Unknown {};
template <typename F, typename = void>
struct Second {
  using type = Unknown;
};
template <typename R, typename First, typename Arg, typename... Rest>
struct Second<R (*)(First, Arg, Rest...), void> {
  using type = std::decay_t<Arg>;
};
template <typename R, typename F, typename First, typename Arg, typename... Rest>
struct Second<R (F::*)(First, Arg, Rest...) const, void> {
  using type = std::decay_t<Arg>;
};
template <typename F>
struct Second<F, std::void_t<decltype(&F::operator())>> : Second<decltype(&F::operator())> {};

}  // namespace internal_module

// One type of module: how to make it, and which params it takes. `Made` is a pointer to the
// interface. Config has the fields `type` and `params`. Converts implicitly from a maker.
template <typename Made, typename Config, typename... Deps>
struct Module {
 private:
  template <typename Make>
  using ParamsOf = typename internal_module::Second<Make>::type;
  template <typename Make>
  static constexpr bool kReadsParams =
      std::is_invocable_r_v<absl::StatusOr<Made>, Make&, const Config&, Deps...>;
  template <typename Make>
  static constexpr bool kTakesParams =
      std::is_invocable_r_v<absl::StatusOr<Made>, Make&, const Config&, ParamsOf<Make>, Deps...>;

 public:
  using Maker = std::function<absl::StatusOr<Made>(const Config&, Deps...)>;
  Module() = default;
  Module(std::nullptr_t) {}  // NOLINT: makes nothing, like an empty std::function
  // `check` is called before `make`. Without one, the check is that the params hold the message
  // which `make` takes.
  template <typename Make, std::enable_if_t<!std::is_base_of_v<Module, Make> &&
                                                (kReadsParams<Make> || kTakesParams<Make>),
                                            int> = 0>
  Module(Make make, ParamsCheck check = nullptr) {  // NOLINT: a registration names the maker
    if constexpr (kReadsParams<Make>) {
      create = std::move(make);
    } else if constexpr (std::is_same_v<ParamsOf<Make>, NoParams>) {
      check_params = TakesNoParams;
      create = [make](const Config& config, Deps... deps) -> absl::StatusOr<Made> {
        DING_RETURN_IF_ERROR(TakesNoParams(config));
        return make(config, NoParams(), std::forward<Deps>(deps)...);
      };
    } else {
      check_params = TakesParams<ParamsOf<Make>>;
      params_message = &ParamsOf<Make>::descriptor;
      create = [make](const Config& config, Deps... deps) -> absl::StatusOr<Made> {
        ParamsOf<Make> params;
        DING_RETURN_IF_ERROR(ReadParams(config, &params));
        return make(config, params, std::forward<Deps>(deps)...);
      };
    }
    create_checks = !kReadsParams<Make> && check == nullptr;
    if (check != nullptr) check_params = std::move(check);
  }

  // Checks the params and calls `create`.
  absl::StatusOr<Made> operator()(const Config& config, Deps... deps) const {
    if (!create_checks) DING_RETURN_IF_ERROR(CheckParams(check_params, config));
    return create(config, std::forward<Deps>(deps)...);
  }

  // Checks the params before a run begins. If it is empty, only `create` decides.
  ParamsCheck check_params;
  bool create_checks = false;              // whether `create` refuses what `check_params` refuses
  ParamsMessage params_message = nullptr;  // as in RegistryHelp
  Maker create;
};

// The types of an interface by name. `Type` is a Module or derives from one.
template <typename Type>
class ModuleRegistry : public Registry<Type> {
 public:
  using Registry<Type>::Registry;

  // Makes what `config` names.
  //   kNotFound         no linked type has this name; the message lists the names that are linked
  //   kInvalidArgument  the type refuses the params, or the maker refuses the config or the
  //                     dependencies. The message does not name the module: callers add its name
  //   kInternal         the maker threw or returned null; the message names the type
  template <typename Config, typename... Deps>
  std::invoke_result_t<const Type&, const Config&, Deps...> Create(const Config& config,
                                                                   Deps&&... deps) const {
    const GivenParams given = config;
    DING_ASSIGN_OR_RETURN(const Type type, this->Find(given.type));
    return CallFactory(this->kind(), given.type,
                       [&] { return type(config, std::forward<Deps>(deps)...); });
  }
};

}  // namespace ding

#endif  // DING_WORKER_BASE_MODULE_H_
