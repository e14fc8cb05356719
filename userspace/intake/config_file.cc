// SPDX-License-Identifier: Apache-2.0
#include "intake/config_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "base/trusted_file.h"
#include "base/unique_fd.h"
#include "intake/config_check.h"
#include "intake/kubelet_config.h"
#include "intake/kubelet_own_config.h"
#include "intake/oomd_conf.h"
#include "intake/oomd_conf_files.h"
#include "intake/pod_list.h"
#include "intake/proactive_reclaim_config.h"
#include "intake/ruleset_config.h"
#include "messages/yaml_message.h"
#include "text/yaml_tree.h"

namespace forestall::intake {
namespace {

// `path` relative to the directory of `file`.
std::string relative_to(const std::string& file, const std::string& path) {
  const std::size_t slash = file.find_last_of('/');
  if (path.starts_with('/') || slash == std::string::npos) return path;
  return file.substr(0, slash + 1) + path;
}

using KnownPods = std::vector<std::shared_ptr<const Pod>>;

// How files are read.
struct Files {
  ReadFile read;
  std::function<Result<KnownPods>(const std::string& path)> read_pods;
};

KnownPods shared(std::vector<Pod> pods) {
  KnownPods known;
  known.reserve(pods.size());
  for (Pod& pod : pods) known.push_back(std::make_shared<const Pod>(std::move(pod)));
  return known;
}

// Loads one configuration, from its texts to the configuration in force.
class Loader {
 public:
  explicit Loader(Files files) : files_(std::move(files)) {}

  Result<void> take_own(const std::string& path) {
    const std::string text = TRY(files_.read(path));
    own_.file = path;
    loaded_.files.push_back(path);
    std::vector<text::Diagnostic> problems;
    own_.places = messages::read_yaml(text, own_.message, problems);
    findings_.add_errors(path, problems);
    return {};
  }

  Result<LoadedConfig> finish(const std::string& kubelet_path, const GivenFlags& flags) && {
    KubeletSettings settings = TRY(read_kubelet(kubelet_path));
    const KubeletSettings of_flags = read_kubelet_flags(flags, findings_.errors);
    settings.incomplete = !findings_.errors.empty();
    put_over(settings, shared_settings(own_), &findings_.warnings);
    put_over(settings, of_flags, nullptr);
    CheckedConfig checked = check_config(own_, settings, findings_);
    loaded_.config = std::move(checked.config);
    loaded_.origins = std::move(checked.origins);
    loaded_.kubelet_minor = checked.kubelet_minor;
    loaded_.rulesets = std::move(checked.rulesets);
    loaded_.reclaim = std::move(checked.reclaim);
    loaded_.hooks = std::move(checked.hooks);
    const auto& written = own_.message.rulesets();
    loaded_.written_rulesets.assign(written.begin(), written.end());
    text::Findings not_run;
    Report of_rules(own_.file, own_.places, not_run);
    find_not_run_by_agent(loaded_.rulesets, of_rules);
    loaded_.not_run_by_agent = text::format_each(not_run.errors);
    text::Findings without_systemd;
    Report of_restarts(own_.file, own_.places, without_systemd);
    find_restarts(loaded_.rulesets, of_restarts);
    loaded_.refused_without_systemd = text::format_each(without_systemd.errors);
    text::Findings on_v1;
    Report of_reclaim(own_.file, own_.places, on_v1);
    find_proactive_reclaim(own_.message, loaded_.rulesets, of_reclaim);
    loaded_.refused_on_v1 = text::format_each(on_v1.errors);
    loaded_.hard_given = settings.eviction_hard.has_value();
    loaded_.needs_backstop = !own_.message.has_until_oom() && !own_.message.has_compat();
    if (!findings_.errors.empty()) return refusal();
    TRY(add_kubelet_memory_qos());
    TRY(add_managed_oom(checked.managed_oom));
    TRY(add_pods());
    // Findings about the whole configuration precede those about the manifest.
    text::Findings of_manifest;
    TRY(add_manifest(of_manifest));
    check_whole(own_, settings, loaded_.config, findings_);
    if (!findings_.errors.empty()) return refusal();
    loaded_.warnings = text::format_each(findings_.warnings);
    for (std::string& each : text::format_each(of_manifest.warnings)) {
      loaded_.warnings.push_back(std::move(each));
    }
    return std::move(loaded_);
  }

 private:
  [[nodiscard]] Error refusal() const { return error(text::format(findings_.errors)); }

  // Reads a file that the configuration refers to under `key`.
  Result<std::string> read_named(const std::string& key, const std::string& path) {
    Result<std::string> text = files_.read(path);
    if (!text) return unreadable(key, text.error());
    loaded_.files.push_back(path);
    return text;
  }

  Error unreadable(const std::string& key, const Error& problem) {
    findings_.errors.push_back(
        {{own_.file, own_.places.value(key)}, "'" + key + "' cannot be read: " + problem.text()});
    return refusal();
  }

  Result<KubeletSettings> read_kubelet(const std::string& given) {
    std::string path = given;
    std::string text;
    if (!given.empty()) {
      text = TRY(files_.read(given));
      loaded_.files.push_back(given);
    } else if (own_.message.has_kubelet_config()) {
      path = relative_to(own_.file, own_.message.kubelet_config());
      text = TRY(read_named("kubeletConfig", path));
    } else {
      return KubeletSettings();
    }
    loaded_.kubelet_config = path;
    kubelet_text_ = text;
    return read_kubelet_config(text, path, findings_.errors);
  }

  // Without the kubelet's file it stays unknown what the kubelet writes.
  Result<void> add_kubelet_memory_qos() {
    MemoryQosConfig& qos = loaded_.config.memory_qos;
    if (qos.mode == MemoryQosMode::off || loaded_.kubelet_config.empty()) return {};
    const auto read_again = [&](const std::string&) -> Result<std::string> {
      return kubelet_text_;
    };
    const auto own =
        TRY(read_kubelet_own_config(loaded_.kubelet_config, loaded_.kubelet_minor, read_again));
    qos.kubelet_reserves = own.writes_memory_protection;
    qos.kubelet_throttles = own.writes_memory_high;
    return {};
  }

  Result<void> add_managed_oom(const ManagedOomSection& section) {
    if (!section.on) return {};
    loaded_.killed_signal = section.killed_signal;
    loaded_.managed_oom_by_dbus = section.dbus;
    if (!section.config.empty()) {
      const std::string text = TRY(read_named("managedOOM.config", section.config));
      loaded_.managed_oom = read_oomd_conf(text, section.config, kLenientSystemdVersion, findings_);
    } else {
      auto conf =
          read_oomd_conf_files(systemd_directories(), files_.read, loaded_.files, findings_);
      if (!conf) return unreadable("managedOOM.source", conf.error());
      loaded_.managed_oom = *conf;
    }
    return findings_.errors.empty() ? Result<void>() : refusal();
  }

  Result<void> add_pods() {
    if (!own_.message.has_pod_list()) return {};
    const std::string path = relative_to(own_.file, own_.message.pod_list());
    Result<KnownPods> pods = files_.read_pods(path);
    // A mistake in the list begins with its path.
    if (!pods && pods.error().message.starts_with(path)) return pods.error();
    if (!pods) return unreadable("podList", pods.error());
    loaded_.files.push_back(path);
    loaded_.pod_list = path;
    loaded_.config.known_pods = std::move(*pods);
    return {};
  }

  Result<void> add_manifest(text::Findings& findings) {
    if (!own_.message.has_manifest()) return {};
    const std::string path = relative_to(own_.file, own_.message.manifest());
    const std::string text = TRY(read_named("manifest", path));
    v1::Manifest message;
    std::vector<text::Diagnostic> problems;
    const messages::FieldPositions places = messages::read_yaml(text, message, problems);
    findings.add_errors(path, problems);
    const CheckedManifest manifest = check_manifest(message, path, places, findings);
    if (!findings.errors.empty()) return error(text::format(findings.errors));
    merge_manifest(manifest, path, places, loaded_.config, findings);
    return {};
  }

  const Files files_;
  ReadConfig own_;
  text::Findings findings_;
  LoadedConfig loaded_;
  std::string kubelet_text_;  // of loaded_.kubelet_config
};

// O_NONBLOCK: opening a FIFO without a writer must not block a reload; regular files ignore the
// flag.
Result<UniqueFd> open_file(const std::string& path, FileTrust trust) {
  if (trust == FileTrust::required) return open_trusted(path);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return errno_error("open", path);
  return fd;
}

Result<std::string> read_text(const std::string& path, FileTrust trust) {
  const UniqueFd fd = TRY(open_file(path, trust));
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t size = ::read(fd.get(), buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return errno_error("read", path);
    if (size == 0) return text;
    text.append(buffer, static_cast<std::size_t>(size));
    if (text.size() > text::kYamlBytesMax)
      return error(path + ":1:1: the file is larger than 1 MiB");
  }
}

Files files_of(FileTrust trust) {
  return {[trust](const std::string& path) { return read_text(path, trust); },
          [trust](const std::string& path) { return read_pod_file(path, trust); }};
}

Files files_of(const ReadFile& read) {
  return {read, [read](const std::string& path) -> Result<KnownPods> {
            const std::string text = TRY(read(path));
            Result<std::vector<Pod>> pods = parse_pod_list(text);
            if (!pods) return pods.error().in(path);
            return shared(std::move(*pods));
          }};
}

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  return read_text(path, FileTrust::any);
}

Result<std::string> read_trusted_text_file(const std::string& path) {
  return read_text(path, FileTrust::required);
}

Result<KnownPods> read_pod_file(const std::string& path, FileTrust trust) {
  const UniqueFd fd = TRY(open_file(path, trust));
  Result<std::vector<Pod>> pods = read_pod_list(fd, path);
  if (!pods) return pods.error().code != 0 ? pods.error() : pods.error().in(path);
  return shared(std::move(*pods));
}

Config built_in_config() {
  text::Findings findings;
  return check_config(ReadConfig(), KubeletSettings(), findings).config;
}

namespace {

Result<LoadedConfig> load_with(const ConfigInputs& inputs, Files files) {
  Loader loader(std::move(files));
  if (!inputs.config.empty()) TRY(loader.take_own(inputs.config));
  return std::move(loader).finish(inputs.kubelet_config, inputs.flags);
}

}  // namespace

Result<LoadedConfig> load_config(const ConfigInputs& inputs, FileTrust trust) {
  return load_with(inputs, files_of(trust));
}

Result<LoadedConfig> load_config(const ConfigInputs& inputs, const ReadFile& read) {
  return load_with(inputs, files_of(read));
}

}  // namespace forestall::intake
