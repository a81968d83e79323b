#include "common/s3/aws_settings.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <system_error>

namespace forebay {
namespace {

// Far above any real file; a wrong path (a log, a device) must not fill the memory.
constexpr std::size_t kMaxFileBytes = 1 << 20;

using Settings = std::map<std::string, std::string, std::less<>>;
using Sections = std::map<std::string, Settings, std::less<>>;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

// A '#' or ';' after a blank begins a comment; inside a word it belongs to the value.
std::string_view WithoutComment(std::string_view text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if ((text[i] == '#' || text[i] == ';') && IsBlank(text[i - 1])) return text.substr(0, i);
  }
  return text;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// Nothing where there are none around it.
std::optional<std::string_view> WithoutQuotes(std::string_view text) {
  const bool quoted = text.size() >= 2 && text.front() == text.back() &&
                      (text.front() == '\'' || text.front() == '"');
  if (!quoted) return std::nullopt;
  return text.substr(1, text.size() - 2);
}

// "[profile  x]" and "[profile x]" are the same section, and so is "[profile 'x']": AWS's CLI
// writes a name with blanks in quotes.
std::string SectionName(std::string_view inside) {
  std::string name;
  inside = Trim(inside);
  while (!inside.empty()) {
    if (!name.empty()) name.push_back(' ');
    if (const auto quoted = WithoutQuotes(inside)) return name.append(*quoted);
    const auto* const end = std::ranges::find_if(inside, IsBlank);
    name.append(inside.begin(), end);
    inside = Trim(inside.substr(static_cast<std::size_t>(end - inside.begin())));
  }
  return name;
}

// Builds the sections line by line.
class IniReader {
 public:
  // False when the line is not understood.
  bool Line(std::string_view line) {
    const std::string_view text = Trim(line);
    if (text.empty() || text.front() == '#' || text.front() == ';') return true;
    if (text.front() == '[') return Header(text);
    if (section_ == nullptr) return false;
    const std::size_t equals = text.find('=');
    if (IsBlank(line.front())) {
      // A nested setting; an indented line without '=' continues a value that nothing here reads.
      if (equals != std::string_view::npos) Set(outer_ + "." + Key(text, equals), text, equals);
      return true;
    }
    if (equals == std::string_view::npos || equals == 0) return false;
    outer_ = Key(text, equals);
    Set(outer_, text, equals);
    return true;
  }

  Sections Take() { return std::move(sections_); }

 private:
  static std::string Key(std::string_view text, std::size_t equals) {
    return Lower(Trim(text.substr(0, equals)));
  }

  void Set(const std::string& key, std::string_view text, std::size_t equals) {
    (*section_)[key] = std::string(Trim(WithoutComment(text.substr(equals + 1))));
  }

  bool Header(std::string_view text) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return false;
    section_ = &sections_[SectionName(text.substr(1, close - 1))];
    outer_.clear();
    return true;
  }

  Sections sections_;
  Settings* section_ = nullptr;
  std::string outer_;  // the last setting that was not indented
};

Result<Sections> ParseIni(std::string_view text, const std::string& path) {
  IniReader reader;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (!reader.Line(text.substr(0, end))) {
      return Fail(Code::kInvalid,
                  fmt::format("line {} of {} is neither a [section] nor a 'setting = value' in one",
                              number, path));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.Take();
}

struct SharedFile {
  std::string path;
  std::string problem;  // "" = it was read
  Sections sections;
};

Result<std::string> ReadAll(int fd, const std::string& path) {
  std::string text;
  std::array<char, 16384> chunk;
  for (;;) {
    const ssize_t n = ::read(fd, chunk.data(), chunk.size());
    if (n == 0) return text;
    if (n < 0) {
      return Fail(Code::kInvalid,
                  fmt::format("cannot read {}: {}", path, std::generic_category().message(errno)));
    }
    text.append(chunk.data(), static_cast<std::size_t>(n));
    if (text.size() > kMaxFileBytes) {
      return Fail(Code::kInvalid, fmt::format("{} is larger than 1 MiB: no AWS file", path));
    }
  }
}

Result<SharedFile> ReadSharedFile(std::string path) {
  SharedFile file{.path = std::move(path), .problem = {}, .sections = {}};
  const int fd = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    if (error != ENOENT && error != ENOTDIR) {
      return Fail(Code::kInvalid, fmt::format("cannot open {}: {}", file.path,
                                              std::generic_category().message(error)));
    }
    file.problem = "no such file";
    return file;
  }
  Result<std::string> text = ReadAll(fd, file.path);
  ::close(fd);
  if (!text) return Fail(std::move(text.error()));
  Result<Sections> sections = ParseIni(*text, file.path);
  if (!sections) return Fail(std::move(sections.error()));
  file.sections = std::move(*sections);
  return file;
}

// Where a shared file lies; nothing when no variable says so.
std::optional<std::string> SharedPath(const AwsEnvironment& environment, std::string_view variable,
                                      std::string_view name_in_home) {
  const std::optional<std::string> home = environment.Get("HOME");
  std::optional<std::string> named = environment.Get(variable);
  if (named) {
    if (named->starts_with("~/") && home) named = *home + named->substr(1);
    return named;
  }
  if (!home) return std::nullopt;
  return fmt::format("{}/.aws/{}", *home, name_in_home);
}

Result<SharedFile> OpenShared(const AwsEnvironment& environment, std::string_view variable,
                              std::string_view name_in_home) {
  std::optional<std::string> path = SharedPath(environment, variable, name_in_home);
  if (!path) {
    return SharedFile{.path = fmt::format("~/.aws/{}", name_in_home),
                      .problem = fmt::format("neither {} nor HOME is set", variable),
                      .sections = {}};
  }
  return ReadSharedFile(*std::move(path));
}

std::string StampOf(const std::optional<std::string>& path) {
  struct stat status{};
  if (!path || ::stat(path->c_str(), &status) != 0) return "-";
  return fmt::format("{}:{}:{}.{:09}", status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

// The endpoints that `services = NAME` of a profile gives.
void AddServiceEndpoints(AwsProfile& profile, const Settings& section) {
  for (const std::string_view service : {"s3", "sts"}) {
    const auto endpoint = section.find(fmt::format("{}.endpoint_url", service));
    if (endpoint == section.end()) continue;
    profile.settings[fmt::format("services.{}.endpoint_url", service)] = endpoint->second;
  }
}

const Settings* Find(const Sections& sections, const std::string& name) {
  const auto it = sections.find(name);
  return it == sections.end() ? nullptr : &it->second;
}

std::string Describe(const SharedFile& file, bool has_profile, const std::string& profile) {
  if (!file.problem.empty()) return fmt::format("{} ({})", file.path, file.problem);
  return has_profile ? file.path : fmt::format("{} (no profile '{}')", file.path, profile);
}

}  // namespace

AwsEnvironment AwsEnvironment::OfProcess() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return AwsEnvironment(std::move(variables));
}

std::optional<std::string> AwsEnvironment::Get(std::string_view name) const {
  const auto it = variables_.find(name);
  if (it == variables_.end() || it->second.empty()) return std::nullopt;
  return it->second;
}

bool AwsEnvironment::IsTrue(std::string_view name) const {
  const std::optional<std::string> value = Get(name);
  return value && Lower(*value) == "true";
}

std::optional<std::string> AwsProfile::Get(std::string_view key) const {
  const auto it = settings.find(key);
  if (it == settings.end() || it->second.empty()) return std::nullopt;
  return it->second;
}

Result<AwsProfile> LoadAwsProfile(const AwsEnvironment& environment, std::string_view name) {
  AwsProfile profile;
  profile.name = name.empty() ? environment.Get("AWS_PROFILE").value_or("default") : name;
  Result<SharedFile> keys = OpenShared(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
  if (!keys) return Fail(std::move(keys.error()));
  Result<SharedFile> config = OpenShared(environment, "AWS_CONFIG_FILE", "config");
  if (!config) return Fail(std::move(config.error()));

  const Settings* in_keys = Find(keys->sections, profile.name);
  const Settings* in_config = Find(config->sections, "profile " + profile.name);
  if (in_config == nullptr && profile.name == "default") {
    in_config = Find(config->sections, "default");
  }
  if (in_keys != nullptr) profile.settings = *in_keys;
  if (in_config != nullptr) profile.settings.insert(in_config->begin(), in_config->end());
  profile.found = in_keys != nullptr || in_config != nullptr;
  profile.looked_at = fmt::format("{} and {}", Describe(*keys, in_keys != nullptr, profile.name),
                                  Describe(*config, in_config != nullptr, profile.name));

  if (const std::optional<std::string> services = profile.Get("services")) {
    const Settings* section = Find(config->sections, "services " + *services);
    if (section != nullptr) AddServiceEndpoints(profile, *section);
  }
  return profile;
}

std::string SharedFilesStamp(const AwsEnvironment& environment) {
  return StampOf(SharedPath(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials")) + " " +
         StampOf(SharedPath(environment, "AWS_CONFIG_FILE", "config"));
}

std::optional<std::string> ConfiguredRegion(const AwsEnvironment& environment,
                                            const AwsProfile& profile) {
  std::optional<std::string> region = environment.Get("AWS_REGION");
  if (!region) region = environment.Get("AWS_DEFAULT_REGION");
  if (!region) region = profile.Get("region");
  return region;
}

bool ConfiguredSwitch(const AwsEnvironment& environment, std::string_view variable,
                      const AwsProfile& profile, std::string_view key) {
  if (environment.Get(variable)) return environment.IsTrue(variable);
  return Lower(profile.Get(key).value_or("")) == "true";
}

std::optional<std::string> ConfiguredEndpoint(const AwsEnvironment& environment,
                                              const AwsProfile& profile, std::string_view service) {
  const bool ignored = ConfiguredSwitch(environment, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", profile,
                                        "ignore_configured_endpoint_urls");
  if (ignored) return std::nullopt;
  std::string variable = fmt::format("AWS_ENDPOINT_URL_{}", service);
  std::ranges::transform(variable, variable.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::optional<std::string> endpoint = environment.Get(variable);
  if (!endpoint) endpoint = environment.Get("AWS_ENDPOINT_URL");
  if (!endpoint) endpoint = profile.Get(fmt::format("services.{}.endpoint_url", service));
  if (!endpoint) endpoint = profile.Get("endpoint_url");
  return endpoint;
}

std::string CaBundleOf(const std::string& given, const AwsEnvironment& environment,
                       std::string_view profile) {
  if (!given.empty()) return given;
  std::optional<std::string> bundle = environment.Get("AWS_CA_BUNDLE");
  if (bundle) return *std::move(bundle);
  const Result<AwsProfile> named = LoadAwsProfile(environment, profile);
  if (named) bundle = named->Get("ca_bundle");
  if (bundle || profile.empty()) return bundle.value_or("");
  return CaBundleOf({}, environment);
}

}  // namespace forebay
