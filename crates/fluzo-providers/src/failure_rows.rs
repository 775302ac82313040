//! Error bodies of many servers, kept close to what they send, with what is made of them.

use StreamErrorKind::{
    Authentication, Capacity, InvalidRequest, Overflow, Quota, RateLimit, Transient,
};

use super::tests::{context, headers};
use super::*;

/// Who sends it, the status (200: inside a stream, or as a whole answer), headers, body; the
/// sort of failure, the wait in milliseconds, the id of the request.
type Row = (
    &'static str,
    u16,
    &'static [(&'static str, &'static str)],
    &'static str,
    StreamErrorKind,
    Option<u64>,
    Option<&'static str>,
);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("OpenAI", 401, &[("x-request-id", "req_1")], r#"{"error":{"message":"Incorrect API key provided: sk-abc*****. You can find your API key at your account page.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#, Authentication, None, Some("req_1")),
    ("OpenAI", 403, &[("x-request-id", "req_1")], r#"{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported","param":null,"type":"request_forbidden"}}"#, Authentication, None, Some("req_1")),
    ("OpenAI", 429, &[("x-request-id", "req_1"), ("x-ratelimit-remaining-requests", "499"), ("x-ratelimit-reset-requests", "120ms"), ("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")], r#"{"error":{"message":"Rate limit reached for gpt-5.4 in organization org-x on tokens per min (TPM): Limit 30000, Used 30000, Requested 1.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#, RateLimit, Some(360_000), Some("req_1")),
    ("OpenAI", 429, &[], r#"{"error":{"message":"Rate limit reached for gpt-5.4 on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s. Visit the limits page to learn more.","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#, RateLimit, Some(20_000), None),
    ("OpenAI", 429, &[("retry-after-ms", "1250"), ("retry-after", "2")], r#"{"error":{"message":"Rate limit reached. Please try again in 9s.","type":"tokens","code":"rate_limit_exceeded"}}"#, RateLimit, Some(1_250), None),
    ("OpenAI", 429, &[], r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#, Quota, None, None),
    ("OpenAI", 400, &[("x-request-id", "req_1")], r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130112 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#, Overflow, None, Some("req_1")),
    ("OpenAI", 400, &[], r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#, Overflow, None, None),
    ("OpenAI", 404, &[("x-request-id", "req_1")], r#"{"error":{"message":"The model `gpt-99` does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#, InvalidRequest, None, Some("req_1")),
    ("OpenAI", 400, &[("x-request-id", "req_1")], r#"{"error":{"message":"Invalid value: 'devloper'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.","type":"invalid_request_error","param":"messages[0].role","code":"invalid_value"}}"#, InvalidRequest, None, Some("req_1")),
    ("OpenAI", 500, &[("x-request-id", "req_1")], r#"{"error":{"message":"The server had an error while processing your request. Sorry about that!","type":"server_error","param":null,"code":null}}"#, Transient, None, Some("req_1")),
    ("OpenAI", 503, &[], r#"{"error":{"message":"The engine is currently overloaded, please try again later","type":"server_error","param":null,"code":null}}"#, Transient, None, None),
    ("OpenAI", 503, &[], r#"{"error":{"message":"That model is currently at capacity. Please try a different model, or try again in 2 minutes.","type":"server_error","code":"model_at_capacity"}}"#, Capacity, Some(120_000), None),
    ("OpenAI, in a stream", 200, &[], r#"{"error":{"type":"server_error","code":"server_error","message":"An error occurred while processing your request. Please include the request ID in your message.","request_id":"req_s"}}"#, Transient, None, Some("req_s")),
    ("OpenAI, in a stream", 200, &[], r#"{"error":{"type":"tokens","code":"rate_limit_exceeded","message":"Rate limit reached for gpt-5.4. Please try again in 1.898s."}}"#, RateLimit, Some(1_898), None),
    ("Azure", 429, &[("retry-after", "27"), ("apim-request-id", "az-1")], r#"{"error":{"code":"429","message":"Requests to the ChatCompletions operation have exceeded the token rate limit of your current pricing tier. Please retry after 27 seconds."}}"#, RateLimit, Some(27_000), Some("az-1")),
    ("Azure", 401, &[], r#"{"statusCode":401,"message":"Unauthorized. Access token is missing, invalid, audience is incorrect, or have expired."}"#, Authentication, None, None),
    ("Azure", 404, &[], r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#, InvalidRequest, None, None),
    ("Azure", 400, &[], r#"{"error":{"message":"The response was filtered due to the prompt triggering the content management policy.","type":null,"param":"prompt","code":"content_filter","status":400}}"#, InvalidRequest, None, None),
    ("Azure", 408, &[], r#"{"error":{"code":"Timeout","message":"The operation was timeout."}}"#, Transient, None, None),
    ("Anthropic", 400, &[("request-id", "req_011")], r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"},"request_id":"req_011"}"#, Overflow, None, Some("req_011")),
    ("Anthropic", 413, &[("request-id", "req_011")], r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#, Overflow, None, Some("req_011")),
    ("Anthropic", 401, &[], r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"},"request_id":"req_b"}"#, Authentication, None, Some("req_b")),
    ("Anthropic", 403, &[("request-id", "req_011")], r#"{"type":"error","error":{"type":"permission_error","message":"Your API key does not have permission to use the specified resource."}}"#, Authentication, None, Some("req_011")),
    ("Anthropic", 429, &[("request-id", "req_011"), ("anthropic-ratelimit-input-tokens-remaining", "0"), ("anthropic-ratelimit-input-tokens-reset", "1994-11-06T08:50:00Z"), ("anthropic-ratelimit-requests-remaining", "40"), ("anthropic-ratelimit-requests-reset", "1994-11-06T09:50:00Z")], r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 30,000 input tokens per minute."}}"#, RateLimit, Some(23_000), Some("req_011")),
    ("Anthropic", 529, &[("request-id", "req_011")], r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Transient, None, Some("req_011")),
    ("Anthropic", 500, &[("request-id", "req_011")], r#"{"type":"error","error":{"type":"api_error","message":"Internal server error"}}"#, Transient, None, Some("req_011")),
    ("Anthropic", 400, &[("request-id", "req_011")], r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API. Please go to Plans & Billing to upgrade or purchase credits."}}"#, Quota, None, Some("req_011")),
    ("Anthropic", 400, &[("request-id", "req_011")], r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.3: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1."}}"#, InvalidRequest, None, Some("req_011")),
    ("Anthropic", 404, &[("request-id", "req_011")], r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}"#, InvalidRequest, None, Some("req_011")),
    ("Anthropic, in a stream", 200, &[], r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Transient, None, None),
    ("Google", 400, &[], r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}"#, Authentication, None, None),
    ("Google", 400, &[], r#"[{"error":{"code":400,"message":"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).","status":"INVALID_ARGUMENT"}}]"#, Overflow, None, None),
    ("Google", 429, &[], r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details. Please retry in 29.536786s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"29s"}]}}"#, RateLimit, Some(29_000), None),
    ("Google", 429, &[], r#"{"error":{"code":429,"message":"You exceeded your current quota.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}]}}"#, Quota, None, None),
    ("Google", 429, &[], r#"{"error":{"code":429,"message":"Resource exhausted. Please try again later.","status":"RESOURCE_EXHAUSTED"}}"#, RateLimit, None, None),
    ("Google", 503, &[], r#"{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}"#, Transient, None, None),
    ("Google", 500, &[], r#"{"error":{"code":500,"message":"An internal error has occurred.","status":"INTERNAL"}}"#, Transient, None, None),
    ("Google", 403, &[], r#"{"error":{"code":403,"message":"Permission denied on resource project x.","status":"PERMISSION_DENIED"}}"#, Authentication, None, None),
    ("Google", 504, &[], r#"{"error":{"code":504,"message":"Deadline expired before operation could complete.","status":"DEADLINE_EXCEEDED"}}"#, Transient, None, None),
    ("OpenRouter", 402, &[], r#"{"error":{"message":"This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens, but can only afford 1200.","code":402}}"#, Quota, None, None),
    ("OpenRouter", 401, &[], r#"{"error":{"message":"No auth credentials found","code":401}}"#, Authentication, None, None),
    ("OpenRouter", 429, &[], r#"{"error":{"message":"Rate limit exceeded: free-models-per-min. ","code":429,"metadata":{"headers":{"X-RateLimit-Limit":"20","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"784111837000"}}}}"#, RateLimit, Some(60_000), None),
    ("OpenRouter", 429, &[], r#"{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"z/model is temporarily rate-limited upstream. Please retry shortly.","provider_name":"Z"}}}"#, RateLimit, None, None),
    ("OpenRouter", 503, &[], r#"{"error":{"message":"No instances available for this model","code":503}}"#, Capacity, None, None),
    ("OpenRouter", 400, &[], r#"{"error":{"message":"This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens.","code":400}}"#, Overflow, None, None),
    ("OpenRouter, in a stream", 200, &[], r#"{"id":"gen-1","choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"code":502,"message":"Provider disconnected"}}"#, Transient, None, None),
    ("OpenRouter", 200, &[], r#"{"error":{"message":"Provider returned error","code":524},"user_id":"u"}"#, Transient, None, None),
    ("Groq", 429, &[("retry-after", "3")], r#"{"error":{"message":"Rate limit reached for model `openai/gpt-oss-120b` on tokens per minute (TPM): Limit 8000, Used 7900, Requested 500. Please try again in 2m59.56s.","type":"tokens","code":"rate_limit_exceeded"}}"#, RateLimit, Some(3_000), None),
    ("Groq", 429, &[("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "2m59.56s")], r#"{"error":{"message":"Rate limit reached on requests per day (RPD).","type":"requests","code":"rate_limit_exceeded"}}"#, RateLimit, Some(179_560), None),
    ("Groq", 413, &[], r#"{"error":{"message":"Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 9000. Please reduce the length of the messages and try again.","type":"tokens","code":"rate_limit_exceeded"}}"#, Overflow, None, None),
    ("Groq", 400, &[], r#"{"error":{"message":"Failed to call a function. Please adjust your prompt.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<tool>"}}"#, InvalidRequest, None, None),
    ("Groq", 498, &[], r#"{"error":{"message":"Flex tier capacity exceeded for model x, please try again later.","type":"capacity","code":"capacity_exceeded"}}"#, Capacity, None, None),
    ("Groq", 503, &[], r#"{"error":{"message":"x is currently over capacity. Please try again and back off exponentially.","type":"internal_server_error"}}"#, Capacity, None, None),
    ("xAI", 400, &[], r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}"#, Overflow, None, None),
    ("xAI", 400, &[], r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***. You can obtain an API key from the console."}"#, Authentication, None, None),
    ("xAI", 429, &[], r#"{"code":"Some resource has been exhausted","error":"Your team has either used all available credits or reached its monthly spending limit."}"#, Quota, None, None),
    ("DeepSeek", 402, &[], r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}"#, Quota, None, None),
    ("DeepSeek", 401, &[], r#"{"error":{"message":"Authentication Fails (no such user)","type":"authentication_error","param":null,"code":"invalid_request_error"}}"#, Authentication, None, None),
    ("DeepSeek", 503, &[], r#"{"error":{"message":"Service is too busy. We advise users to temporarily switch to alternative providers.","type":"service_unavailable_error","code":"service_unavailable_error"}}"#, Transient, None, None),
    ("Mistral", 400, &[], r#"{"object":"error","message":"Prompt contains 40012 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","param":null,"code":"3051"}"#, Overflow, None, None),
    ("Mistral", 429, &[], r#"{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","param":null,"code":"3505"}"#, Capacity, None, None),
    ("Mistral", 429, &[], r#"{"message":"Requests rate limit exceeded"}"#, RateLimit, None, None),
    ("Mistral", 401, &[], r#"{"message":"Unauthorized","request_id":"mi-1"}"#, Authentication, None, Some("mi-1")),
    ("Mistral", 422, &[], r#"{"object":"error","message":{"detail":[{"type":"missing","loc":["body","model"],"msg":"Field required"}]},"type":"invalid_request_error","code":null}"#, InvalidRequest, None, None),
    ("Cerebras", 429, &[], r#"{"message":"We're experiencing high traffic right now! Please try again soon.","type":"too_many_requests_error","param":"queue","code":"queue_exceeded"}"#, Capacity, None, None),
    ("Cerebras", 429, &[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "12.5")], r#"{"message":"Tokens per minute limit exceeded - too many tokens processed.","type":"too_many_tokens_error","code":"token_quota_exceeded"}"#, Quota, Some(12_500), None),
    ("Cerebras", 400, &[], r#"{"message":"Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192","type":"invalid_request_error","code":"context_length_exceeded"}"#, Overflow, None, None),
    ("Together", 422, &[], r#"{"error":{"message":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 32769. Given: 33000 `inputs` tokens and 100 `max_new_tokens`","type":"invalid_request_error"}}"#, Overflow, None, None),
    ("Together", 429, &[], r#"{"id":"t","error":{"message":"You have reached the rate limit specific to this model. The maximum rate limit for this model is 6.0 queries per minute.","type":"model_rate_limit","code":null}}"#, RateLimit, None, None),
    ("Together", 503, &[], r#"{"error":{"message":"The server is overloaded or not ready yet.","type":"server_error","code":"server_overloaded"}}"#, Transient, None, None),
    ("Fireworks", 400, &[], r#"{"error":{"object":"error","type":"invalid_request_error","message":"The prompt is too long: 140000, model maximum context length: 131071"}}"#, Overflow, None, None),
    ("Fireworks", 412, &[], r#"{"error":{"message":"Account x is suspended, possibly due to reaching the monthly spending limit or failure to pay past invoices. Go to billing."}}"#, Quota, None, None),
    ("Z.ai", 429, &[], r#"{"error":{"code":"1302","message":"Rate limit reached for requests"}}"#, RateLimit, None, None),
    ("Z.ai", 429, &[], r#"{"error":{"code":"1113","message":"Insufficient balance or no resource package. Please recharge."}}"#, Quota, None, None),
    ("Z.ai", 400, &[], r#"{"error":{"code":"1261","message":"Prompt exceeds max length"}}"#, Overflow, None, None),
    ("Qwen", 400, &[], r#"{"error":{"code":"invalid_parameter_error","param":null,"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]","type":"invalid_request_error"},"id":"c","request_id":"qw-1"}"#, Overflow, None, Some("qw-1")),
    ("Qwen", 429, &[], r#"{"code":"Throttling.RateQuota","message":"Requests rate limit exceeded, please try again later.","request_id":"qw-2"}"#, RateLimit, None, Some("qw-2")),
    ("Moonshot", 400, &[], r#"{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144","type":"invalid_request_error"}}"#, Overflow, None, None),
    ("Moonshot", 429, &[], r#"{"error":{"message":"Your account org-x <ak-x> request reached max request: 3, please try again after 1 seconds","type":"rate_limit_reached_error"}}"#, RateLimit, Some(1_000), None),
    ("Moonshot", 429, &[], r#"{"error":{"message":"The engine is currently overloaded, please try again later","type":"engine_overloaded_error"}}"#, RateLimit, None, None),
    ("Moonshot", 429, &[], r#"{"error":{"message":"Your account is suspended, please check your plan and billing details","type":"exceeded_current_quota_error"}}"#, Quota, None, None),
    ("MiniMax", 200, &[], r#"{"id":"x","choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}"#, Quota, None, None),
    ("MiniMax", 200, &[], r#"{"base_resp":{"status_code":1002,"status_msg":"rate limit exceeded, please retry later"}}"#, RateLimit, None, None),
    ("MiniMax", 200, &[], r#"{"base_resp":{"status_code":2013,"status_msg":"invalid params, context window exceeds limit"}}"#, Overflow, None, None),
    ("NVIDIA", 403, &[], r#"{"status":403,"title":"Forbidden","detail":"Authorization failed"}"#, Authentication, None, None),
    ("NVIDIA", 503, &[], r#"{"detail":"ResourceExhausted: Worker local total request limit reached (33/32), no available workers"}"#, Capacity, None, None),
    ("Hugging Face", 402, &[], r#"{"error":"You have exceeded your monthly included credits for Inference Providers."}"#, Quota, None, None),
    ("Hugging Face", 503, &[], r#"{"error":"Model x is currently loading","estimated_time":20.0}"#, Transient, None, None),
    ("GitHub Models", 429, &[("retry-after", "85690"), ("x-github-request-id", "gh-1")], r#"{"error":{"code":"RateLimitReached","message":"Rate limit of 50 per 86400s exceeded for UserByModelByDay. Please wait 85690 seconds before retrying.","details":"x"}}"#, RateLimit, Some(85_690_000), Some("gh-1")),
    ("GitHub Models", 413, &[], r#"{"error":{"code":"tokens_limit_reached","message":"Request body too large for gpt-5 model. Max size: 8000 tokens.","details":"x"}}"#, Overflow, None, None),
    ("GitHub Copilot", 400, &[], r#"{"error":{"message":"prompt token count of 200000 exceeds the limit of 128000","code":"model_max_prompt_tokens_exceeded"}}"#, Overflow, None, None),
    ("GitHub Copilot", 402, &[], "You have exceeded your premium request allowance. quota exceeded\n", Quota, None, None),
    ("GitHub Copilot", 401, &[], "unauthorized: token expired\n", Authentication, None, None),
    ("Vercel", 402, &[], r#"{"error":{"message":"Insufficient funds. Please add credits to your account.","type":"insufficient_funds"}}"#, Quota, None, None),
    ("Cloudflare", 429, &[("cf-ray", "8c-FRA")], r#"{"success":false,"errors":[{"code":4006,"message":"you have used up your daily free allocation of 10,000 neurons"}],"messages":[],"result":{}}"#, RateLimit, None, Some("8c-FRA")),
    ("Cloudflare", 429, &[], r#"{"errors":[{"message":"AiError: Capacity temporarily exceeded, please try again.","code":3040}],"success":false}"#, Capacity, None, None),
    ("Cloudflare", 403, &[], "<!DOCTYPE html><html><title>Just a moment...</title></html>", Authentication, None, None),
    ("Cloudflare", 520, &[], "<html><body>Web server returned an unknown error</body></html>", Transient, None, None),
    ("Ollama", 404, &[], r#"{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error","param":null,"code":null}}"#, InvalidRequest, None, None),
    ("Ollama", 503, &[], r#"{"error":"server busy, please try again.  maximum pending requests exceeded"}"#, Capacity, None, None),
    ("Ollama", 400, &[], r#"{"error":{"message":"prompt too long; exceeded max context length by 5 tokens"}}"#, Overflow, None, None),
    ("Ollama", 429, &[], r#"{"error":"you have reached your weekly usage limit, please upgrade to continue"}"#, Quota, None, None),
    ("LM Studio", 400, &[], r#"{"error":"Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. The number of tokens to keep from the initial prompt is greater than the context length."}"#, Overflow, None, None),
    ("llama.cpp", 400, &[], r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}"#, Overflow, None, None),
    ("llama.cpp", 503, &[], r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#, Transient, None, None),
    ("llama.cpp", 503, &[], r#"{"error":{"message":"no slot available","type":"server_error","code":503}}"#, Capacity, None, None),
    ("llama-swap", 502, &[], "unable to start process: upstream command exited prematurely", Transient, None, None),
    ("vLLM", 400, &[], r#"{"object":"error","message":"This model's maximum context length is 8192 tokens. However, you requested 9000 tokens in the messages. Please reduce the length of the messages.","type":"BadRequestError","param":null,"code":400}"#, Overflow, None, None),
    ("vLLM", 404, &[], r#"{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","param":null,"code":404}"#, InvalidRequest, None, None),
    ("vLLM", 401, &[], r#"{"error":"Unauthorized"}"#, Authentication, None, None),
    ("Chutes", 429, &[], r#"{"detail":"Infrastructure is at maximum capacity, try again later"}"#, Capacity, None, None),
    ("OpenCode", 429, &[], r#"{"type":"error","error":{"type":"GoUsageLimitError","message":"5-hour usage limit reached. Resets in 2h 10min."}}"#, Quota, Some(7_800_000), None),
    ("OpenCode", 401, &[], r#"{"type":"error","error":{"type":"CreditsError","message":"Insufficient balance. Manage your billing here."}}"#, Quota, None, None),
    ("Bedrock", 400, &[("x-amzn-requestid", "aws-1")], r#"{"message":"Input is too long for requested model."}"#, Overflow, None, Some("aws-1")),
    ("Bedrock", 429, &[], r#"{"message":"Too many tokens, please wait before trying again.","__type":"ThrottlingException"}"#, RateLimit, None, None),
    ("Bedrock", 503, &[], r#"{"Message":"Bedrock is unable to process your request.","__type":"ServiceUnavailableException"}"#, Transient, None, None),
    ("a proxy", 502, &[], "<html><head><title>502 Bad Gateway</title></head></html>", Transient, None, None),
    ("a proxy", 504, &[], "upstream request timeout", Transient, None, None),
    ("a proxy", 400, &[], "", Overflow, None, None),
    ("a proxy", 413, &[], "", Overflow, None, None),
    ("a proxy", 407, &[], "Proxy Authentication Required", Authentication, None, None),
    ("anybody", 429, &[("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT")], "", RateLimit, Some(60_000), None),
    ("anybody", 429, &[], r#"{"error":{"retry_after_seconds":3}}"#, RateLimit, Some(3_000), None),
    ("anybody", 429, &[("retry-after", "1382400")], r#"{"error":{"message":"monthly usage limit reached"}}"#, Quota, Some(1_382_400_000), None),
];

#[test]
fn error_bodies_of_many_servers() {
    assert!(ROWS.len() >= 80);
    let mut wrong = Vec::new();
    for (who, status, given, body, kind, wait, id) in ROWS {
        let error = if *status == 200 {
            let body: Value = serde_json::from_str(body).unwrap();
            context().in_stream(crate::reader::reported(&body).unwrap())
        } else {
            context().http(*status, &headers(given), body.as_bytes())
        };
        let found = (
            error.kind,
            error.retry_after_ms,
            error.request_id.as_deref(),
        );
        if found != (*kind, *wait, *id) {
            wrong.push(format!(
                "{who} {status} {body}\n  {found:?} is not {:?}",
                (kind, wait, id)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
