{{- /* What the pods of the API, the worker and the migration share. */ -}}

{{- define "service.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Values.image.tag | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* Labels that never change, of one part: list . "api" */ -}}
{{- define "service.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "service.placement" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: secret
    secret:
      secretName: {{ .Values.secret | quote }}
      defaultMode: 0440
  - name: ledger
    persistentVolumeClaim:
      claimName: {{ .Values.ledger | quote }}
  - name: data
    emptyDir: {}
  - name: tmp
    emptyDir: {}
{{- end }}

{{- define "service.container" -}}
image: {{ printf "%s:%s" .Values.image.repository .Values.image.tag | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - name: secret
    mountPath: /run/secrets/service
    readOnly: true
  - name: ledger
    mountPath: /ledger
  - name: data
    mountPath: /data
  - name: tmp
    mountPath: /tmp
env:
  - name: SERVICE_BASE_URL
    value: {{ .Values.baseUrl | quote }}
  - name: SERVICE_ERASURE_LEDGER
    value: /ledger/erasures.jsonl
  - name: SERVICE_DATABASE_URL_FILE
    value: /run/secrets/service/database_url
  - name: SERVICE_MIGRATION_DATABASE_URL_FILE
    value: /run/secrets/service/migration_url
  - name: SERVICE_INTERNAL_TOKEN_FILE
    value: /run/secrets/service/internal_token
  - name: SERVICE_ENCRYPTION_KEY_FILE
    value: /run/secrets/service/encryption_key
  - name: SERVICE_SIGNING_KEY_FILE
    value: /run/secrets/service/signing_key
{{- range $name, $value := .Values.settings }}
  - name: {{ $name }}
    value: {{ kindIs "float64" $value | ternary (int64 $value) $value | toString | quote }}
{{- end }}
{{- end }}
