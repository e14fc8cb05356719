// SPDX-License-Identifier: Apache-2.0
#include "api/config_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "api/config_check.h"
#include "api/yaml_message.h"
#include "api/yaml_tree.h"
#include "base/unique_fd.h"

namespace forestall::api {
namespace {

// `path` as seen from the directory of `file`.
std::string relative_to(const std::string& file, const std::string& path) {
  const std::size_t slash = file.find_last_of('/');
  if (path.starts_with('/') || slash == std::string::npos) return path;
  return file.substr(0, slash + 1) + path;
}

// Checks the manifest and merges it into `config`. Returns its warnings.
Result<std::vector<std::string>> add_manifest(const std::string& file, const std::string& text,
                                              Config& config) {
  v1::Manifest message;
  Findings findings;
  const Places places = read_yaml(text, message, findings.errors);
  CheckedManifest manifest;
  if (findings.errors.empty()) manifest = check_manifest(message, places, findings);
  if (!findings.errors.empty()) return error(format(file, findings.errors));
  merge_manifest(manifest, places, config, findings);
  return format_each(file, findings.warnings);
}

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  // O_NONBLOCK: a FIFO without a writer must not hang a reload; regular files do not care.
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
  return check_config(v1::Config(), Places(), findings);
}

Result<LoadedConfig> load_config(const std::string& path) {
  const std::string text = TRY(read_text_file(path));
  return parse_config(text, path);
}

Result<LoadedConfig> parse_config(std::string_view text, const std::string& file,
                                  const ReadFile& read) {
  v1::Config message;
  Findings findings;
  const Places places = read_yaml(text, message, findings.errors);
  LoadedConfig loaded;
  loaded.files.push_back(file);
  if (findings.errors.empty()) loaded.config = check_config(message, places, findings);
  if (!findings.errors.empty()) return error(format(file, findings.errors));

  std::vector<std::string> manifest_warnings;
  if (message.has_manifest()) {
    const std::string manifest = relative_to(file, message.manifest());
    const Result<std::string> manifest_text = read(manifest);
    if (!manifest_text) {
      return error(format(file, {{places.value("manifest"),
                                  "'manifest' cannot be read: " + manifest_text.error().text()}}));
    }
    loaded.files.push_back(manifest);
    manifest_warnings = TRY(add_manifest(manifest, *manifest_text, loaded.config));
  }
  check_whole(message, loaded.config, places, findings);
  loaded.warnings = format_each(file, findings.warnings);
  for (std::string& warning : manifest_warnings) loaded.warnings.push_back(std::move(warning));
  return loaded;
}

}  // namespace forestall::api
