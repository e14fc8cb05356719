// SPDX-License-Identifier: Apache-2.0
#include "api/config_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "api/config_check.h"
#include "api/kubelet_config.h"
#include "api/pod_list.h"
#include "api/yaml_message.h"
#include "api/yaml_tree.h"
#include "base/unique_fd.h"

namespace forestall::api {
namespace {

// `path` relative to the directory of `file`.
std::string relative_to(const std::string& file, const std::string& path) {
  const std::size_t slash = file.find_last_of('/');
  if (path.starts_with('/') || slash == std::string::npos) return path;
  return file.substr(0, slash + 1) + path;
}

// Loads one configuration, from its texts to the configuration in force.
class Loader {
 public:
  explicit Loader(const ReadFile& read) : read_(read) {}

  void take_own(std::string_view text, const std::string& file) {
    own_.file = file;
    loaded_.files.push_back(file);
    std::vector<Diagnostic> problems;
    own_.places = read_yaml(text, own_.message, problems);
    findings_.add_errors(file, problems);
  }

  Result<LoadedConfig> finish(const std::string& kubelet_path, const GivenFlags& flags) && {
    KubeletSettings settings = TRY(read_kubelet(kubelet_path));
    const KubeletSettings of_flags = read_kubelet_flags(flags, findings_.errors);
    if (!findings_.errors.empty()) return refusal();
    put_over(settings, shared_settings(own_), &findings_.warnings);
    put_over(settings, of_flags, nullptr);
    CheckedConfig checked = check_config(own_, settings, findings_);
    loaded_.config = std::move(checked.config);
    loaded_.origins = std::move(checked.origins);
    loaded_.hard_given = settings.eviction_hard.has_value();
    if (!findings_.errors.empty()) return refusal();
    TRY(add_pods());
    // Findings about the whole configuration precede those about the manifest.
    Findings of_manifest;
    TRY(add_manifest(of_manifest));
    check_whole(own_, settings, loaded_.config, findings_);
    loaded_.warnings = format_each(findings_.warnings);
    for (std::string& each : format_each(of_manifest.warnings)) {
      loaded_.warnings.push_back(std::move(each));
    }
    return std::move(loaded_);
  }

 private:
  [[nodiscard]] Error refusal() const { return error(format(findings_.errors)); }

  // Reads a file that the configuration refers to under `key`.
  Result<std::string> read_named(const std::string& key, const std::string& path) {
    Result<std::string> text = read_(path);
    if (text) {
      loaded_.files.push_back(path);
      return text;
    }
    findings_.errors.push_back({{own_.file, own_.places.value(key)},
                                "'" + key + "' cannot be read: " + text.error().text()});
    return refusal();
  }

  Result<KubeletSettings> read_kubelet(const std::string& given) {
    std::string path = given;
    std::string text;
    if (!given.empty()) {
      text = TRY(read_(given));
      loaded_.files.push_back(given);
    } else if (own_.message.has_kubelet_config()) {
      path = relative_to(own_.file, own_.message.kubelet_config());
      text = TRY(read_named("kubeletConfig", path));
    } else {
      return KubeletSettings();
    }
    return read_kubelet_config(text, path, findings_.errors);
  }

  Result<void> add_pods() {
    if (!own_.message.has_pod_list()) return {};
    const std::string path = relative_to(own_.file, own_.message.pod_list());
    const std::string text = TRY(read_named("podList", path));
    Result<std::vector<Pod>> pods = parse_pod_list(text);
    if (!pods) return pods.error().in(path);
    for (Pod& pod : *pods) {
      loaded_.config.known_pods.push_back(std::make_shared<const Pod>(std::move(pod)));
    }
    return {};
  }

  Result<void> add_manifest(Findings& findings) {
    if (!own_.message.has_manifest()) return {};
    const std::string path = relative_to(own_.file, own_.message.manifest());
    const std::string text = TRY(read_named("manifest", path));
    v1::Manifest message;
    std::vector<Diagnostic> problems;
    const Places places = read_yaml(text, message, problems);
    findings.add_errors(path, problems);
    CheckedManifest manifest;
    if (findings.errors.empty()) manifest = check_manifest(message, path, places, findings);
    if (!findings.errors.empty()) return error(format(findings.errors));
    merge_manifest(manifest, path, places, loaded_.config, findings);
    return {};
  }

  const ReadFile& read_;
  ReadConfig own_;
  Findings findings_;
  LoadedConfig loaded_;
};

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  // O_NONBLOCK: opening a FIFO without a writer must not block a reload; regular files ignore the
  // flag.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return errno_error("open", path);
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t size = ::read(fd.get(), buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return errno_error("read", path);
    if (size == 0) return text;
    text.append(buffer, static_cast<std::size_t>(size));
    if (text.size() > kYamlBytesMax) return error(path + ":1:1: the file is larger than 1 MiB");
  }
}

Config built_in_config() {
  Findings findings;
  return check_config(ReadConfig(), KubeletSettings(), findings).config;
}

Result<LoadedConfig> load_config(const ConfigInputs& inputs, const ReadFile& read) {
  Loader loader(read);
  if (!inputs.config.empty()) loader.take_own(TRY(read(inputs.config)), inputs.config);
  return std::move(loader).finish(inputs.kubelet_config, inputs.flags);
}

Result<LoadedConfig> load_config(const std::string& path) {
  return load_config(ConfigInputs{path, "", {}});
}

Result<LoadedConfig> parse_config(std::string_view text, const std::string& file,
                                  const ReadFile& read) {
  Loader loader(read);
  loader.take_own(text, file);
  return std::move(loader).finish("", {});
}

}  // namespace forestall::api
