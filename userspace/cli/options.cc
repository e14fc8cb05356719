// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <thread>

#include "sources/node_pages.h"
#include "sources/poll_source.h"

namespace forestall::cli {
namespace {

constexpr const char* kSystemConfig = "/etc/forestall/config.yaml";

std::string all_feature_names() {
  std::string names;
  for (std::size_t i = 0; i < kFeatureCount; ++i) {
    names += fmt::format("{}{}", i == 0 ? "" : ", ", to_string(feature_at(i)));
  }
  return names;
}

// Path of the file; empty: built-in configuration.
std::string config_path(const Options& options) {
  if (!options.config.empty()) return options.config;
  return access(kSystemConfig, F_OK) == 0 ? kSystemConfig : "";
}

}  // namespace

Result<FeatureSet> disabled_features(const Options& options) {
  FeatureSet set;
  for (const std::string& name : options.disabled) {
    const auto feature = parse_feature(name);
    if (!feature) {
      return error(fmt::format("--disable-feature: unknown feature '{}'; features are: {}", name,
                               all_feature_names()));
    }
    set.set(static_cast<std::size_t>(*feature));
  }
  return set;
}

Result<intake::LoadedConfig> loaded_config(const Options& options, intake::FileTrust trust) {
  const FeatureSet disabled = TRY(disabled_features(options));
  intake::LoadedConfig loaded = TRY(intake::load_config(
      {config_path(options), options.kubelet_config, options.kubelet_flags}, trust));
  loaded.config.disabled |= disabled;
  loaded.config.dry_run = loaded.config.dry_run || options.dry_run;
  return loaded;
}

Result<intake::BackstopFacts> backstop_facts() {
  const std::string text = TRY(intake::read_text_file("/proc/zoneinfo"));
  const auto sums = TRY(sources::zone_sums(text));
  const Pages page = ::sysconf(_SC_PAGESIZE);
  return intake::BackstopFacts{Bytes{sums.low * page}, Bytes{sums.managed * page},
                               sources::possible_fill_rate(std::thread::hardware_concurrency())};
}

void add_backstop_of_host(intake::LoadedConfig& loaded) {
  if (!loaded.needs_backstop) return;
  const auto facts = backstop_facts();
  if (facts) {
    intake::add_backstop(*facts, loaded);
  } else {
    loaded.warnings.push_back("no backstop on memory.untilOom: " + facts.error().text());
  }
}

Result<intake::LoadedConfig> host_config(const Options& options, intake::FileTrust trust) {
  intake::LoadedConfig loaded = TRY(loaded_config(options, trust));
  add_backstop_of_host(loaded);
  return loaded;
}

Result<Config> effective_config(const Options& options, std::vector<std::string>& warnings) {
  intake::LoadedConfig loaded = TRY(loaded_config(options));
  warnings.insert(warnings.end(), loaded.warnings.begin(), loaded.warnings.end());
  return std::move(loaded.config);
}

std::string api_socket(const Options& options) {
  return options.socket.empty() ? options.run_directory + "/forestall.sock" : options.socket;
}

std::string config_origin(const Options& options) {
  std::string origin = config_path(options);
  if (!options.kubelet_config.empty()) {
    origin += (origin.empty() ? "" : ", ") + options.kubelet_config;
  }
  return origin.empty() ? "built in" : origin;
}

}  // namespace forestall::cli
