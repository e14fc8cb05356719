// SPDX-License-Identifier: Apache-2.0
#include "intake/oomd_conf_files.h"

#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>

#include "intake/oomd_conf.h"

namespace forestall::intake {
namespace {

namespace fs = std::filesystem;

// A drop-in that is a link to /dev/null, or empty, only hides others.
bool only_hides(const fs::path& path) {
  std::error_code ignored;
  return fs::is_character_file(path, ignored);
}

// By name; the first directory wins.
Result<std::map<std::string, std::string>> drop_ins(const std::vector<std::string>& directories) {
  std::map<std::string, std::string> found;
  for (const std::string& directory : directories) {
    const std::string path = directory + "/oomd.conf.d";
    std::error_code problem;
    fs::directory_iterator each(path, problem);
    if (problem == std::errc::no_such_file_or_directory) continue;
    for (; !problem && each != fs::directory_iterator(); each.increment(problem)) {
      const std::string name = each->path().filename();
      if (name.ends_with(".conf") && !name.starts_with('.')) found.emplace(name, each->path());
    }
    if (problem) return Error{problem.value(), "list " + path};
  }
  return found;
}

Result<std::vector<std::string>> conf_paths(const std::vector<std::string>& directories) {
  std::vector<std::string> paths;
  for (const std::string& directory : directories) {
    const std::string path = directory + "/oomd.conf";
    std::error_code problem;
    const auto type = fs::symlink_status(path, problem).type();
    if (type == fs::file_type::not_found) continue;
    if (type == fs::file_type::none) return Error{problem.value(), "find " + path};
    paths.push_back(path);
    break;
  }
  for (const auto& [name, path] : TRY(drop_ins(directories))) paths.push_back(path);
  std::erase_if(paths, only_hides);
  return paths;
}

}  // namespace

std::vector<std::string> systemd_directories() {
  return {"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd"};
}

Result<rulesets::OomdConf> read_oomd_conf_files(
    const std::vector<std::string>& directories,
    const std::function<Result<std::string>(const std::string& path)>& read,
    std::vector<std::string>& files, text::Findings& findings) {
  rulesets::OomdConf conf;
  for (const std::string& path : TRY(conf_paths(directories))) {
    const std::string text = TRY(read(path));
    files.push_back(path);
    conf = read_oomd_conf(text, path, kLenientSystemdVersion, findings, conf);
  }
  return conf;
}

}  // namespace forestall::intake
