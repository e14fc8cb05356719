// SPDX-License-Identifier: Apache-2.0
#include "cli/companion_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/printable.h"
#include "cli/exit_code.h"

namespace forestall::cli {
namespace {

// Directory of this executable.
Result<std::string> own_directory() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length < 0) return errno_error("readlink", "/proc/self/exe");
  const std::string text(path.data(), static_cast<std::size_t>(length));
  return text.substr(0, text.rfind('/'));
}

}  // namespace

Result<std::string> companion_program(const std::string& name) {
  const std::string beside = TRY(own_directory());
  const std::array<std::string, 3> directories{beside, beside + "/../libexec/forestall",
                                               FORESTALL_LIBEXEC};
  for (const std::string& each : directories) {
    std::string path = each + "/" + name;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return Error{ENOENT, fmt::format("{} not found in {}", name, fmt::join(directories, ", "))};
}

int become_companion(const std::string& name, std::vector<std::string> arguments) {
  std::string own_name = name;
  std::vector<char*> argv{own_name.data()};
  for (std::string& each : arguments) argv.push_back(each.data());
  argv.push_back(nullptr);
  const auto path = companion_program(name);
  if (path) ::execv(path->c_str(), argv.data());
  const Error failure = path ? errno_error("exec", *path) : path.error();
  fmt::print(stderr, "forestall: {}\n", printable_lines(failure.text()));
  return kExitFailed;
}

std::optional<int> become_kubectl_plugin(int argc, char** argv) {
  if (argc == 0) return std::nullopt;
  const std::string_view path = argv[0];
  if (path.substr(path.rfind('/') + 1) != "kubectl-forestall") return std::nullopt;
  std::vector<std::string> arguments{"kubectl"};
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  return become_companion("forestall-cluster", std::move(arguments));
}

}  // namespace forestall::cli
