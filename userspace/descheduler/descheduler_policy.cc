// SPDX-License-Identifier: Apache-2.0
#include "descheduler/descheduler_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/quotes.h"
#include "descheduler/descheduler_args.h"
#include "descheduler/effective_policy.h"
#include "descheduler/policy_reader.h"
#include "descheduler/policy_v1alpha1.h"
#include "descheduler/prometheus_url.h"
#include "text/yaml_json.h"

namespace forestall::descheduler {
namespace {

using text::YamlNode;

constexpr std::string_view kVersion = "descheduler/v1alpha2";
constexpr std::string_view kOldVersion = "descheduler/v1alpha1";
constexpr std::string_view kKind = "DeschedulerPolicy";

// A missing apiVersion or kind is accepted. False: it is another one.
bool check_version(PolicyMap& root, bool& old) {
  const std::string version = root.text("apiVersion").value_or(std::string(kVersion));
  const std::string kind = root.text("kind").value_or(std::string(kKind));
  old = version == kOldVersion;
  if (version != kVersion && !old) {
    root.error("apiVersion", fmt::format("no kind \"{}\" is registered for version \"{}\"; use {}",
                                         kind, version, kVersion));
    return false;
  }
  if (kind == kKind) return true;
  root.error("kind", fmt::format("no kind \"{}\" is registered for version \"{}\"; use {}", kind,
                                 version, kKind));
  return false;
}

void check_prometheus(PolicyMap& provider) {
  if (provider.find("prometheus") == nullptr) {
    provider.error("prometheus",
                   "prometheus configuration is required when prometheus source is "
                   "enabled");
    return;
  }
  PolicyMap block = provider.map("prometheus");
  const std::string url = block.text("url").value_or("");
  if (url.empty()) {
    provider.error("prometheus", "prometheus URL is required when prometheus is enabled");
  } else if (const auto problem = problem_of_url(url)) {
    block.error("url", "error parsing prometheus URL: " + *problem);
  }
  if (block.find("authToken") == nullptr) return;
  PolicyMap token = block.map("authToken");
  if (token.find("secretReference") == nullptr) {
    block.error("authToken",
                "prometheus authToken secret is expected to be set when authToken field is");
    return;
  }
  PolicyMap reference = token.map("secretReference");
  if (reference.text("namespace").value_or("").empty() ||
      reference.text("name").value_or("").empty()) {
    token.error("secretReference",
                "prometheus authToken secret reference does not set both namespace and name");
  }
}

void read_providers(PolicyMap& root, PolicyErrors& errors, rebalance::Policy& policy) {
  const bool collector = root.map("metricsCollector").boolean("enabled");
  std::set<std::string> known;
  for (const YamlNode& item : root.list("metricsProviders")) {
    PolicyMap provider(&item, errors, "metricsProviders.");
    const std::string source = provider.text("source").value_or("");
    if (!known.insert(source).second) {
      provider.error("source", fmt::format("metric provider \"{}\" is already configured, each "
                                           "source can be configured only once",
                                           source));
    }
    if (source == "KubernetesMetrics") {
      policy.kubernetes_metrics = true;
      if (collector) {
        provider.error("source",
                       "it is not allowed to combine metrics provider when metrics "
                       "collector is enabled");
      }
    } else if (source == "Prometheus") {
      policy.prometheus = true;
      check_prometheus(provider);
    }
  }
  policy.kubernetes_metrics |= collector;
}

// One profile: its configurations, and which plugins it enables.
class ProfileReader {
 public:
  ProfileReader(const YamlNode& node, PolicyErrors& errors,
                const std::vector<rebalance::PriorityClass>* classes, bool fixed, bool old)
      : map_(&node, errors), errors_(errors), classes_(classes), fixed_(fixed), old_(old) {}

  rebalance::Profile read(EffectiveProfile& effective) {
    rebalance::Profile profile;
    profile.name = map_.text("name").value_or("");
    effective.name = profile.name;
    read_pool(profile, effective);
    read_configs(profile, effective);
    PolicyMap plugins = map_.map("plugins");
    errors_.set_scope("");
    // Decoded only, as in the descheduler.
    for (const char* const point : {"presort", "sort"}) (void)read_names(plugins, point);
    for (const char* const point : {"filter", "preevictionfilter"}) {
      check_known(profile, point, plugins, read_names(plugins, point),
                  [](std::string_view name) { return name == kDefaultEvictor; });
    }
    profile.deschedule = enabled(profile, "deschedule", plugins, is_deschedule_plugin);
    profile.balance = enabled(profile, "balance", plugins, is_balance_plugin);
    for (const rebalance::ProfilePlugin& each : profile.deschedule) {
      effective.deschedule.push_back(each.name);
    }
    for (const rebalance::ProfilePlugin& each : profile.balance)
      effective.balance.push_back(each.name);
    return profile;
  }

 private:
  // Our own key. The descheduler ignores it and processes all nodes.
  void read_pool(rebalance::Profile& profile, EffectiveProfile& effective) {
    if (!fixed_) {
      if (map_.find("nodeSelector") == nullptr) return;
      return errors_.warn(map_.at("nodeSelector"),
                          fmt::format("in profile {}: nodeSelector is ignored, as by the "
                                      "descheduler; it needs compat: fixed",
                                      profile.name));
    }
    const auto text = map_.text("nodeSelector");
    if (!text) return;
    errors_.set_scope(fmt::format("in profile {}: ", profile.name));
    if (auto parsed = rebalance::parse_selector(*text); !parsed) {
      map_.error("nodeSelector", parsed.error().message);
    } else {
      profile.node_selector = *std::move(parsed);
    }
    effective.node_selector = *text;
  }

  // Of several configurations of a plugin the first one counts.
  void read_configs(rebalance::Profile& profile, EffectiveProfile& effective) {
    errors_.set_scope(fmt::format("in profile {}: ", profile.name));
    bool has_evictor = false;
    for (const YamlNode& item : map_.list("pluginConfig")) {
      PolicyMap config(&item, errors_, "pluginConfig.");
      const std::string name = config.text("name").value_or("");
      const YamlNode* const args = config.find("args");
      if (!is_registered(name)) {
        config.error("name", fmt::format("plugin {} in pluginConfig not registered", name));
        continue;
      }
      if (old_ && name != kDefaultEvictor) {
        errors_.set_scope(fmt::format("strategy \"{}\" param validation failed: ", name));
      }
      ConfiguredArgs read = read_plugin_args(name, args, item.at, errors_, classes_, fixed_);
      effective.configs.push_back({name, args, read});
      if (auto* const evictor = std::get_if<rebalance::DefaultEvictorArgs>(&read)) {
        if (!has_evictor) profile.evictor = std::move(*evictor);
        has_evictor = true;
        continue;
      }
      const bool known = std::any_of(configured_.begin(), configured_.end(),
                                     [&](const auto& each) { return each.name == name; });
      if (!known) {
        configured_.push_back({name, std::get<rebalance::PluginArgs>(std::move(read))});
      }
    }
    if (has_evictor) return;
    effective.configs.insert(effective.configs.begin(),
                             {std::string(kDefaultEvictor), nullptr, profile.evictor});
  }

  // The plugins that an extension point enables. `disabled` is decoded only.
  static std::vector<std::string> read_names(PolicyMap& plugins, std::string_view point) {
    PolicyMap map = plugins.map(point);
    (void)map.texts("disabled");
    return map.texts("enabled");
  }

  template <typename Known>
  static bool check_known(const rebalance::Profile& profile, std::string_view point,
                          PolicyMap& plugins, const std::vector<std::string>& names, Known known) {
    std::string unknown;
    for (const std::string& name : names) {
      if (known(name)) continue;
      unknown += fmt::format("{}{}:{{}}", unknown.empty() ? "" : " ", name);
    }
    if (unknown.empty()) return true;
    plugins.map(point).error("enabled",
                             fmt::format("profile \"{}\" configures {} extension point of "
                                         "non-existing plugins: map[{}]",
                                         profile.name, point, unknown));
    return false;
  }

  template <typename Known>
  std::vector<rebalance::ProfilePlugin> enabled(const rebalance::Profile& profile,
                                                std::string_view point, PolicyMap& plugins,
                                                Known known) {
    std::vector<rebalance::ProfilePlugin> out;
    const std::vector<std::string> names = read_names(plugins, point);
    if (!check_known(profile, point, plugins, names, known)) return out;
    // A plugin that is listed twice runs twice, as in the descheduler.
    for (const std::string& name : names) {
      const auto same = [&](const rebalance::ProfilePlugin& each) { return each.name == name; };
      const auto found = std::find_if(configured_.begin(), configured_.end(), same);
      if (found == configured_.end()) {
        plugins.map(point).error("enabled",
                                 fmt::format("unable to find \"{}\" plugin config", name));
        continue;
      }
      out.push_back(*found);
    }
    return out;
  }

  PolicyMap map_;
  PolicyErrors& errors_;
  const std::vector<rebalance::PriorityClass>* classes_;
  const bool fixed_;
  const bool old_;  // v1alpha1, which has strategies
  std::vector<rebalance::ProfilePlugin> configured_;
};

// Our own key.
void read_pacing(PolicyMap& root, PolicyErrors& errors, rebalance::Policy& policy) {
  constexpr std::uint64_t kMemoryMax = 30ULL * 86'400;
  if (root.find("pacing") == nullptr) return;
  rebalance::Pacing& pacing = policy.pacing.emplace();
  const std::size_t before = errors.count();
  PolicyMap map = root.map("pacing");
  pacing.memory_seconds = map.amount("memorySeconds").value_or(rebalance::kMemorySeconds);
  pacing.moves_per_workload = map.amount("movesPerWorkload");
  pacing.seconds_between_moves = map.amount("secondsBetweenMoves").value_or(0);
  map.finish();
  if (errors.count() != before) return;
  if (pacing.memory_seconds > kMemoryMax) {
    map.error("memorySeconds", fmt::format("memorySeconds must be at most {}, found {}", kMemoryMax,
                                           pacing.memory_seconds));
  }
  if (pacing.moves_per_workload && pacing.memory_seconds == 0) {
    map.error("movesPerWorkload", "movesPerWorkload needs memorySeconds above 0");
  }
  if (pacing.seconds_between_moves > pacing.memory_seconds) {
    map.error("secondsBetweenMoves",
              fmt::format("secondsBetweenMoves must be at most memorySeconds ({}), found {}",
                          pacing.memory_seconds, pacing.seconds_between_moves));
  }
}

// RFC 1123.
bool is_dns_label(std::string_view text) {
  constexpr std::size_t kLongest = 63;
  const auto is_inner = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !text.empty() && text.size() <= kLongest && text.front() != '-' && text.back() != '-' &&
         std::ranges::all_of(text, is_inner);
}

bool has_blanks(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) <= 0x20; });
}

void check_placeholder(PolicyMap& map, const rebalance::PlaceholderSettings& settings) {
  constexpr std::uint64_t kSecondsMin = 10;
  // A plan books the room no longer.
  constexpr std::uint64_t kSecondsMax = rebalance::kBookingSeconds;
  if (!is_dns_label(settings.pod_namespace)) {
    map.error("namespace",
              "namespace must be a name of lower-case letters, digits and '-', found " +
                  in_quotes(settings.pod_namespace));
  }
  if (settings.priority_class.empty() || has_blanks(settings.priority_class)) {
    map.error("priorityClassName", "priorityClassName must be the name of a PriorityClass, found " +
                                       in_quotes(settings.priority_class));
  }
  if (settings.image.empty() || has_blanks(settings.image)) {
    map.error("image", "image must be the name of an image, found " + in_quotes(settings.image));
  }
  if (settings.seconds < kSecondsMin || settings.seconds > kSecondsMax) {
    map.error("seconds", fmt::format("seconds must be between {} and {}, found {}", kSecondsMin,
                                     kSecondsMax, settings.seconds));
  }
}

// Our own keys.
void read_reserve(PolicyMap& root, PolicyErrors& errors, rebalance::Policy& policy) {
  const std::string reserve = root.text("reserve").value_or("none");
  if (reserve != "none" && reserve != "placeholder") {
    return root.error("reserve",
                      "reserve must be 'none' or 'placeholder', found " + in_quotes(reserve));
  }
  if (reserve == "none") {
    if (root.find("placeholder") == nullptr) return;
    return root.error("placeholder", "placeholder needs reserve: placeholder");
  }
  rebalance::PlaceholderSettings settings;
  const std::size_t before = errors.count();
  PolicyMap map = root.map("placeholder");
  if (const auto found = map.text("namespace")) settings.pod_namespace = *found;
  if (const auto found = map.text("priorityClassName")) settings.priority_class = *found;
  if (const auto found = map.text("image")) settings.image = *found;
  settings.seconds = map.amount("seconds").value_or(settings.seconds);
  map.finish();
  if (errors.count() == before) check_placeholder(map, settings);
  policy.placeholder = std::move(settings);
}

void read_top_level(PolicyMap& root, EffectivePolicy& effective, rebalance::Policy& policy) {
  if (const auto text = root.text("nodeSelector")) {
    const auto parsed = rebalance::parse_selector(*text);
    if (parsed) policy.node_selector = *parsed;
    if (!parsed) root.error("nodeSelector", parsed.error().message);
    effective.node_selector = *text;
  }
  // Our own key; the descheduler ignores it, as every unknown one.
  if (const auto text = root.text("compat")) {
    if (*text == "fixed") policy.corrections = rebalance::Corrections::all();
    if (*text != "fixed" && *text != "upstream") {
      root.error("compat", "compat must be 'upstream' or 'fixed', found " + in_quotes(*text));
    }
  }
  policy.evictions_per_node = root.amount("maxNoOfPodsToEvictPerNode");
  policy.evictions_per_namespace = root.amount("maxNoOfPodsToEvictPerNamespace");
  policy.evictions_total = root.amount("maxNoOfPodsToEvictTotal");
  effective.failure_events = root.boolean("evictionFailureEventNotification");
  effective.grace_seconds = root.integer("gracePeriodSeconds");
  effective.metrics_providers = root.find("metricsProviders");
  effective.metrics_collector = root.find("metricsCollector");
}

}  // namespace

std::optional<DeschedulerPolicy> parse_descheduler_policy(
    const std::string& file, std::string_view text,
    const std::vector<rebalance::PriorityClass>* classes, text::Findings& findings) {
  PolicyErrors errors(file, findings);
  const std::size_t before = errors.count();
  std::optional<YamlNode> tree;
  const std::vector<text::YamlDocument> documents = text::split_yaml(text);
  if (documents.empty()) {
    tree.emplace().kind = YamlNode::Kind::map;  // an empty file is an empty policy
  } else {
    // With what is in front of it, for the positions.
    const std::string_view first(text.data(), documents[0].text.data() + documents[0].text.size());
    std::vector<text::Diagnostic> problems;
    tree = text::parse_yaml(first, problems, text::RepeatedKeys::replace);
    findings.add_errors(file, problems);
  }
  if (documents.size() > 1) {
    const text::Position second{static_cast<std::uint32_t>(documents[1].line), 1};
    findings.warnings.push_back(
        {{file, second}, "only the first document of a policy is read, as by the descheduler"});
  }
  if (!tree || errors.count() != before) return std::nullopt;
  bool old = false;
  {
    PolicyMap root(&*tree, errors);
    if (!check_version(root, old) || errors.count() != before) return std::nullopt;
  }
  if (old) tree = translate_v1alpha1(*tree, errors);
  PolicyMap root(&*tree, errors);
  DeschedulerPolicy out;
  EffectivePolicy effective;
  effective.classes_known = classes != nullptr;
  read_top_level(root, effective, out.policy);
  read_pacing(root, errors, out.policy);
  read_reserve(root, errors, out.policy);
  read_providers(root, errors, out.policy);
  const bool fixed = !out.policy.corrections.empty();
  for (const YamlNode& each : root.list("profiles")) {
    out.policy.profiles.push_back(
        ProfileReader(each, errors, classes, fixed, old).read(effective.profiles.emplace_back()));
  }
  errors.sort();
  if (errors.count() != before) return std::nullopt;
  out.effective = to_json(effective, out.policy);
  return out;
}

}  // namespace forestall::descheduler
